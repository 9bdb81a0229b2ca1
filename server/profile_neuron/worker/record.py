"""The program behind profile-neuron record: notes what marked functions get while the user's own program runs.

Started as a script with our folder, the folder for what is noted, 1 or 0 for whether what tensors hold is kept,
-m or a file for what is run, its name, and its arguments.
"""

# As in the worker: nothing of the user's may become ours, and what only we needed is let go of.
import os
import sys

if __name__ == "__main__":
    if sys.version_info < (3, 10):  # noqa: UP036 - it is the user's
        sys.exit("Python %d.%d is too old; profile-neuron needs 3.10 or newer" % sys.version_info[:2])  # noqa: UP031
    own_path, folder, keeps_data, kind, target = sys.argv[1:6]
    arguments = sys.argv[6:]
    here = os.path.dirname(os.path.abspath(__file__))
    user_path = [entry for entry in sys.path if os.path.abspath(entry) != here]
    waiting = {os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    sys.path[:] = [own_path, *(entry for entry in user_path if entry and os.path.abspath(entry) not in waiting)]
    earlier = set(sys.modules)

    import atexit

    from profile_neuron.worker import program, recorder

    sys.path[:] = [*user_path, own_path]
    # Of several processes of one training only the first one records.
    if os.environ.get("RANK", "0") == "0":
        # The first to be registered is the last to be called.
        atexit.register(recorder.begin(folder, keeps_data == "1"))
    program.run(kind == "-m", target, arguments, set(sys.modules) - earlier, waiting)
