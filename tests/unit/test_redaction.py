from __future__ import annotations

import json

import pytest

from profile_neuron.core.redaction import Redaction


def redaction() -> Redaction:
    return Redaction(
        {"/home/someuser": "~", "/home/someuser/work/secret": "PROJECT", "/data/my project": "PROJECT"},
        users=("someuser", "al", "device"),
        hosts=("buildbox7", "buildbox7.corp.example.com"),
        versions=("aws-neuronx-dkms 2.31.7.0",),
    )


TEXTS = {
    "home": ("in /home/someuser/.cache/x", "in ~/.cache/x"),
    "home alone": ("/home/someuser", "~"),
    "the longest path": ("/home/someuser/work/secret/a.py:3", "PROJECT/a.py:3"),
    "a path with a blank": ("'/data/my project/a.py'", "'PROJECT/a.py'"),
    "escaped slashes": (r"\/home\/someuser\/x", r"~\/x"),
    "another home": ("/home/someuser2/secret.py", "PATH"),
    "another path": ("--cache_dir=/mnt/efs/secret/cache:/data/x", "--cache_dir=PATH:PATH"),
    "an option of a compiler": ("-I/data/secret/include", "-IPATH"),
    "a url of a file": ("file:///data/secret", "PATH"),
    "a path that all have": ("/opt/aws/neuron/bin/neuron-ls /dev/neuron0", "/opt/aws/neuron/bin/neuron-ls /dev/neuron0"),
    "a NEFF keeps its name": ("/tmp/someuser/model_12.neff", "PATH/model_12.neff"),
    "a user in a NEFF's name": ("/tmp/x/someuser_12.neff", "PATH/USER_12.neff"),
    "no path": ("3/4, and/or, aten::mul, 1 / 2", "3/4, and/or, aten::mul, 1 / 2"),
    "a url": ("https://awsdocs-neuron.readthedocs-hosted.com/en/latest", "https://awsdocs-neuron.readthedocs-hosted.com/en/latest"),
    "a user": ("Someuser's, msomeuser and someuser_project", "USER's, mUSER and USER_project"),
    "a short user as a word only": ("al and also", "USER and also"),
    "a user named like a field": ('"device"', '"device"'),
    "a host": ("BuildBox7: buildbox7.corp.example.com", "HOST: HOST"),
    "a host of EC2": ("ip-10-0-12-3.ec2.internal", "HOST"),
    "an instance": ("i-0123456789abcdef0_pid_42", "INSTANCE_pid_42"),
    "an old instance": ("i-0123abcd", "INSTANCE"),
    "no instance": ("i-0123, pi-0123abcd", "i-0123, pi-0123abcd"),
    "an image and an ARN": ("ami-0123456789abcdef0 arn:aws:iam::123456789012:role/x", "RESOURCE ARN"),
    "addresses": ("10.1.2.3:4567 and 2001:db8::1 and fe80::1", "IP:4567 and IP and IP"),
    "a hardware address": ("02:42:ac:11:00:02", "MAC"),
    "a known version": ("driver 2.31.7.0", "driver 2.31.7.0"),
    "versions that are no address": ("2.13.3.0.1 and 2.21.1234.0 and 1.2.3", "2.13.3.0.1 and 2.21.1234.0 and 1.2.3"),
    "a name of C++": ("c10::add c10d::allreduce_", "c10::add c10d::allreduce_"),
    "an address of mail": ("a.person@example.com", "EMAIL"),
}  # fmt: skip


@pytest.mark.parametrize("kind", TEXTS)
def test_what_becomes_of_a_text(kind: str) -> None:
    text, expected = TEXTS[kind]
    assert redaction().text(text) == expected
    assert redaction().text(expected) == expected, "once more changes nothing"


def test_numbers_in_json_stay_to_the_byte() -> None:
    text = '{"ts": 1234567890123456.789000, "path":"/home/someuser/a", "n": NaN,\n "10.0.0.1": [1.0, "\\u00e9"]}'
    assert redaction().json(text) == text.replace("/home/someuser", "~").replace("10.0.0.1", "IP")


def test_names_that_json_escapes_are_found_at_each_depth() -> None:
    found = Redaction({"/home/jürgen": "~"}, users=("jürgen",), hosts=())
    inner = json.dumps({"path": "/home/jürgen/x", "by": "jürgen"})
    text = found.json(json.dumps({"args": inner}))
    assert json.loads(json.loads(text)["args"]) == {"path": "~/x", "by": "USER"}


def test_damaged_json_is_a_text() -> None:
    assert redaction().json('{"a": "say "/home/someuser/x""') == '{"a": "say "~/x""'


def test_what_was_replaced_is_counted() -> None:
    found = redaction()
    found.text("/home/someuser/a /home/someuser/b someuser /data/x")
    assert found.counts == {("/home/someuser", "~"): 2, ("someuser", "USER"): 1, ("other absolute paths", "PATH"): 1}


def test_without_any_names_the_patterns_are_replaced() -> None:
    assert Redaction({"/": "~"}, (), ()).text("i-0123abcd / x") == "INSTANCE / x"
