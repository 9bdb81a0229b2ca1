"""The report's program: waits for the name of a run folder and answers with its line costs, on a private wire."""


def main() -> None:
    """Report on one run folder; where the wire closes first there is nothing to do."""
    # Taken before any other import, which could print to it.
    from profile_neuron.wire.stdio import MAGIC, take_over, write_all

    reader, writer = take_over()

    import gc
    import traceback
    from pathlib import Path

    from profile_neuron.errors import ProfileNeuronError
    from profile_neuron.report.files import report
    from profile_neuron.wire.codec import Decoder, encode
    from profile_neuron.wire.messages import Message, ReportDone, ReportFailed, ReportRequest, RunProgress

    def send(message: Message) -> None:
        write_all(writer, encode(message))

    def answer(folder: str) -> None:
        try:
            send(ReportDone(report(Path(folder), lambda phase: send(RunProgress("", phase)))))
        except ProfileNeuronError as error:
            send(ReportFailed(str(error)))
        except Exception as error:  # noqa: BLE001 - the rim of the process; a trace can be damaged in any way
            traceback.print_exc()
            send(ReportFailed(f"{folder}: the report failed ({type(error).__name__}: {error}); profile again"))

    # One result and the process ends; collecting among a million live events only costs time.
    gc.disable()
    writer.write(MAGIC)
    decoder = Decoder()
    while piece := reader.read(1 << 16):
        for message in decoder.feed(piece):
            if isinstance(message, ReportRequest):
                return answer(message.run_folder)


if __name__ == "__main__":
    main()
