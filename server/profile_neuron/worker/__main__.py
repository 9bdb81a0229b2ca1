"""The worker's program: hello, then one request at a time, until the wire closes."""

# The wire must be taken before any other import can print to it or read from it. Started as a script, this
# folder is first on the path; it is not for import, and neither is anything of the user's project yet.
import os
import sys

if __name__ == "__main__":
    own_path = sys.argv[1]
    here = os.path.dirname(os.path.abspath(__file__))
    user_path = [entry for entry in sys.path if entry and os.path.abspath(entry) != here]
    # While our own modules load ours comes first, and folders that the user put on PYTHONPATH wait: neither
    # an older version of this package nor a msgpack.py or random.py of the project may become ours.
    waiting = {os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    sys.path[:] = [own_path, *(entry for entry in user_path if os.path.abspath(entry) not in waiting)]

    from profile_neuron.wire.stdio import take_over

    _reader, _writer = take_over()

    from profile_neuron.worker.session import serve

    # From here on the path is the user's, and ours comes last: what only we needed is let go of, so that an
    # import of that name finds the user's own.
    sys.path[:] = [*user_path, own_path]
    for name in [name for name in sys.modules if name.partition(".")[0] == "msgpack"]:
        del sys.modules[name]
    serve(_reader, _writer)
