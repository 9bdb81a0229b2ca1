"""The report's program: the name of a run folder in, one message with its line costs out, on a private wire."""


def main() -> None:
    """Report on each run folder that the wire names, in a new process, until the wire closes."""
    # Taken before any other import, which could print to it.
    from profile_neuron.wire.stdio import MAGIC, take_over, write_all

    reader, writer = take_over()

    import gc
    import os
    import sys
    import traceback
    from pathlib import Path

    from profile_neuron.errors import ProfileNeuronError
    from profile_neuron.report.device_files import untold_session
    from profile_neuron.report.files import report
    from profile_neuron.wire.codec import Decoder, encode
    from profile_neuron.wire.messages import Message, ReportDone, ReportFailed, ReportRequest, RunProgress

    def send(message: Message) -> None:
        write_all(writer, encode(message))

    def answer(folder: str) -> None:
        try:
            costs = report(Path(folder), lambda phase: send(RunProgress("", phase)))
            send(ReportDone(costs, untold_session(Path(folder), costs)))
        except ProfileNeuronError as error:
            send(ReportFailed(str(error)))
        except Exception as error:  # noqa: BLE001 - the rim of the process; a trace can be damaged in any way
            traceback.print_exc()
            send(ReportFailed(f"{folder}: the report failed ({type(error).__name__}: {error}); profile again"))

    def answer_in_a_new_process(folder: str) -> None:
        child = os.fork()
        if child == 0:
            try:
                answer(folder)
            except BrokenPipeError:
                os._exit(1)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        # The agent sees this process only, so it ends in the same way.
        if code < 0:
            os.kill(os.getpid(), -code)
        if code:
            sys.exit(code)

    # One result and the process ends; collecting among a million live events only costs time.
    gc.disable()
    writer.write(MAGIC)
    decoder = Decoder()
    while piece := reader.read(1 << 16):
        for message in decoder.feed(piece):
            if isinstance(message, ReportRequest):
                answer_in_a_new_process(message.run_folder)


if __name__ == "__main__":
    main()
