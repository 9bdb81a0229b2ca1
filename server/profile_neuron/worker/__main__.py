"""The worker's program: hello, then one request at a time, until the wire closes."""

# The wire must be taken before any other import can print to it or read from it. Started as a script, this
# folder is first on the path; it is not for import, and neither is anything of the user's project yet.
import os
import sys

if __name__ == "__main__":
    own_path = sys.argv[1:]
    here = os.path.dirname(os.path.abspath(__file__))
    user_path = [entry for entry in sys.path if entry and os.path.abspath(entry) != here]
    # While our own modules load, folders that the user put on PYTHONPATH wait: a msgpack.py or a random.py
    # there must not become ours. Afterwards they come first again, and ours last.
    project_path = {os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    sys.path[:] = [entry for entry in user_path if os.path.abspath(entry) not in project_path] + own_path

    from profile_neuron.wire.stdio import take_over

    _reader, _writer = take_over()

    from profile_neuron.worker.session import serve

    sys.path[:] = user_path + [entry for entry in own_path if entry not in user_path]
    serve(_reader, _writer)
