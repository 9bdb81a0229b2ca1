"""The report's program: a run folder in, one message with its line costs out, on a private wire."""


def main() -> None:
    """Report on the run folder that the first argument names."""
    # Taken before any other import, which could print to it.
    from profile_neuron.wire.stdio import MAGIC, take_over, write_all

    _, writer = take_over()

    import gc
    import sys
    import traceback
    from pathlib import Path

    from profile_neuron.errors import ProfileNeuronError
    from profile_neuron.report.files import report
    from profile_neuron.wire.codec import encode
    from profile_neuron.wire.messages import Message, ReportDone, ReportFailed, RunProgress

    def send(message: Message) -> None:
        write_all(writer, encode(message))

    # One result and the process ends; collecting among a million live events only costs time.
    gc.disable()
    writer.write(MAGIC)
    try:
        send(ReportDone(report(Path(sys.argv[1]), lambda phase: send(RunProgress("", phase)))))
    except ProfileNeuronError as error:
        send(ReportFailed(str(error)))
    except Exception as error:  # noqa: BLE001 - the rim of the process; a trace can be damaged in any way
        traceback.print_exc()
        send(ReportFailed(f"{sys.argv[1]}: the report failed ({type(error).__name__}: {error}); profile again"))


if __name__ == "__main__":
    main()
