"""NEFFs and NTFFs by the names that the guides of Neuron Explorer and public tools show; all constructed."""

from __future__ import annotations

import pytest

from profile_neuron.capture.pairing import Pairing, pair_files
from profile_neuron.capture.session_dir import ListedFile


def files(*paths: str) -> list[ListedFile]:
    return [ListedFile(path, 17) for path in paths]


def paired(pairing: Pairing) -> list[tuple[str, list[str]]]:
    return [(pair.ntff.path, [neff.path for neff in pair.neffs]) for pair in pairing.pairs]


def paths(found: tuple[ListedFile, ...]) -> list[str]:
    return [file.path for file in found]


def test_an_ntff_of_a_session_may_have_executed_every_neff() -> None:
    neffs = ["ab/cd/00112233445566778899aabbccddeeff.neff", "neff_9_vnc_0.neff", "neff_10_vnc_1.neff"]
    ntffs = ["profile_nc_0_session_0.ntff", "profile_nc_0_session_1.ntff", "profile_nc_10_session_0.ntff"]
    pairing = pair_files(files(*ntffs), files(*neffs), files("neffs/graph_7.neff"))
    assert pairing.mode == "session"
    assert paired(pairing) == [(ntff, [*neffs, "neffs/graph_7.neff"]) for ntff in ntffs]
    assert pairing.used_cores == (0, 10)
    assert pairing.neffs_without_ntff == pairing.ntffs_without_neff == ()


@pytest.mark.parametrize(
    ("ntff", "neffs", "neff"),
    [
        ("123_instid_0_vnc_1.ntff", ["neff_123.neff", "neff_12.neff", "neff_1234.neff"], "neff_123.neff"),
        ("123_vnc_0.ntff", ["neff_123_vnc_0.neff"], "neff_123_vnc_0.neff"),
        ("123.ntff", ["neff_123_vnc_0.neff"], "neff_123_vnc_0.neff"),
        ("10_vnc_1.ntff", ["neff_10_vnc_0.neff", "neff_10_vnc_1.neff", "neff_10.neff"], "neff_10_vnc_1.neff"),
        ("10_vnc_2.ntff", ["neff_10_vnc_0.neff", "neff_10_vnc_1.neff", "neff_10.neff"], "neff_10.neff"),
        ("10_vnc_2.ntff", ["neff_10_vnc_0.neff", "z/neff_10.neff"], "z/neff_10.neff"),
        ("10_vnc_2.ntff", ["neff_10_vnc_1.neff", "neff_10_vnc_0.neff"], "neff_10_vnc_0.neff"),
        ("10_instid_1_vnc_0.ntff", ["neff_10_instid_0_vnc_0.neff", "neff_10_instid_1_vnc_0.neff"], "neff_10_instid_1_vnc_0.neff"),
        ("10_vnc_0.ntff", ["ab/cd/neff_10.neff"], "ab/cd/neff_10.neff"),
        ("010_vnc_0.ntff", ["neff_10_vnc_0.neff"], None),
        ("10_vnc_0.ntff", ["neff_010_vnc_0.neff", "neff_10_vnc_0.neff\n"], None),
        ("10_vnc_0.ntff", ["00112233445566778899aabbccddeeff.neff"], None),
        ("10_vnc_0.ntff", [], None),
    ],
)  # fmt: skip
def test_an_ntff_of_a_model_has_the_neff_of_its_number(ntff: str, neffs: list[str], neff: str | None) -> None:
    pairing = pair_files(files(ntff), files(*neffs))
    assert pairing.mode == "model"
    assert paired(pairing) == ([(ntff, [neff])] if neff else [])
    assert paths(pairing.ntffs_without_neff) == ([] if neff else [ntff])
    assert set(paths(pairing.neffs_without_ntff)) == set(neffs) - {neff}


def test_a_model_has_the_neff_of_its_server_only_where_it_has_none_itself() -> None:
    served = files("neffs/graph_789.neff", "neffs/graph_790.neff")
    pairing = pair_files(files("a/789_vnc_0.ntff", "a/790_vnc_0.ntff"), files("a/neff_790.neff"), served)
    assert paired(pairing) == [
        ("a/789_vnc_0.ntff", ["neffs/graph_789.neff"]),
        ("a/790_vnc_0.ntff", ["a/neff_790.neff"]),
    ]


def test_numbers_beyond_64_bits_of_a_float_stay_apart() -> None:
    numbers = ["14382885777943380001", "14382885777943380002", "18446744073709551615", "184467440737095516150"]
    pairing = pair_files(files(*(f"{n}_vnc_0.ntff" for n in numbers)), files(*(f"neff_{n}.neff" for n in numbers)))
    assert paired(pairing) == [(f"{n}_vnc_0.ntff", [f"neff_{n}.neff"]) for n in numbers]


def test_pairs_are_in_the_order_of_their_numbers() -> None:
    ntffs = [f"{number}_vnc_{core}.ntff" for number in (9, 10, 100) for core in (0, 1, 2, 10, 11)]
    pairing = pair_files(files(*sorted(ntffs)), files("neff_9.neff", "neff_10.neff", "neff_100.neff"))
    assert [ntff for ntff, _ in paired(pairing)] == ntffs
    assert pairing.used_cores == (0, 1, 2, 10, 11)


@pytest.mark.parametrize(
    ("ntff", "neffs", "neff"),
    [
        ("profile.ntff", ["model.neff"], "model.neff"),
        ("profile_exec_2.ntff", ["model.neff"], "model.neff"),
        ("profile_rank_31.ntff", ["model.neff"], "model.neff"),
        ("tag_rank_0_exec_2.ntff", ["other.neff", "tag.neff"], "tag.neff"),
        ("tag_exec_2.ntff", ["tag.neff", "tag_exec_2.neff"], "tag.neff"),
        ("with blank's.ntff", ["with blank's.neff", "b.neff"], "with blank's.neff"),
        ("profile.ntff", ["a.neff", "b.neff"], None),
        ("profile.ntff", [], None),
    ],
)
def test_an_ntff_of_one_capture_has_the_only_neff_or_the_one_of_its_name(
    ntff: str, neffs: list[str], neff: str | None
) -> None:
    pairing = pair_files(files(ntff), files(*neffs), files("neffs/graph_1.neff"))
    assert pairing.mode == "capture"
    assert paired(pairing) == ([(ntff, [neff])] if neff else [])
    assert pairing.used_cores == pairing.idle_cores == ()


def test_a_capture_has_the_neff_beside_it_rather_than_one_below() -> None:
    pairing = pair_files(files("a/profile.ntff"), files("a/model.neff", "a/ab/cd/0011.neff"))
    assert paired(pairing) == [("a/profile.ntff", ["a/model.neff"])]


@pytest.mark.parametrize("name", ["profile_nc_{}_session_0.ntff", "7_instid_0_vnc_{}.ntff"])
def test_a_core_is_idle_where_all_its_ntffs_are_empty(name: str) -> None:
    sizes = {0: 17, 1: 0, 2: 0, 10: 17}
    ntffs = [ListedFile(name.format(core), size_bytes) for core, size_bytes in sizes.items()]
    pairing = pair_files(ntffs, files("neff_7.neff"))
    assert (pairing.used_cores, pairing.idle_cores) == ((0, 10), (1, 2))
    assert [ntff for ntff, _ in paired(pairing)] == [name.format(0), name.format(10)]
    assert paths(pairing.empty_ntffs) == [name.format(1), name.format(2)]
    assert pairing.ntffs_without_neff == ()


def test_a_core_that_was_used_in_one_session_is_not_idle_in_another() -> None:
    ntffs = [ListedFile("profile_nc_3_session_0.ntff", 0), ListedFile("profile_nc_3_session_1.ntff", 17)]
    pairing = pair_files(ntffs, files("neff_7.neff"))
    assert (pairing.used_cores, pairing.idle_cores) == ((3,), ())


def test_without_ntffs_there_is_no_mode_and_no_neff_was_executed() -> None:
    pairing = pair_files([], files("neff_7.neff"), files("neffs/graph_8.neff"))
    assert (pairing.mode, paths(pairing.neffs_without_ntff)) == ("none", ["neff_7.neff"])
