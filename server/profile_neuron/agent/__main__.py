"""The agent's program: hello, then requests, until the wire closes or a signal ends it."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def main(**options: "Any") -> None:
    """Serve the wire on the descriptors it was started with; the argument is the folder of our packages.

    options are those of Agent, for tests with workers that misbehave.
    """
    # Taken before any other import, which could print to it.
    from profile_neuron.wire.stdio import MAGIC, take_over, write_all

    reader, writer = take_over()

    import os

    # The process that whoever started this one knows.
    known_pid = os.getpid()

    from profile_neuron.agent.keeper import become_agent_below_a_keeper

    become_agent_below_a_keeper(reader, writer)

    import asyncio
    import logging
    import signal
    import sys

    from profile_neuron import __version__
    from profile_neuron.agent.agent import Agent
    from profile_neuron.agent.door import Door
    from profile_neuron.agent.orphans import adopt_orphans
    from profile_neuron.errors import WireError
    from profile_neuron.wire.codec import Decoder, encode
    from profile_neuron.wire.messages import PROTOCOL_VERSION, Hello, Message

    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="agent: %(levelname)s %(message)s")

    def send(message: Message) -> None:
        write_all(writer, encode(message))

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        stream = asyncio.StreamReader()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), reader)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            loop.add_signal_handler(number, stream.feed_eof)
        adopt_orphans()
        agent = Agent(send, sys.argv[1], **options)
        door = await Door.open(known_pid, agent.release)
        decoder = Decoder()
        try:
            writer.write(MAGIC)
            send(Hello(PROTOCOL_VERSION, "agent", __version__, sys.version.split()[0]))
            while piece := await stream.read(1 << 16):
                for message in decoder.feed(piece):
                    await agent.handle(message)
        except WireError as error:
            logging.getLogger(__name__).error("the server broke the wire: %s", error)
        finally:
            door.close()
            await agent.close()

    try:
        asyncio.run(serve())
    except BrokenPipeError:
        # The server is gone, and with it whom to tell; everything started was ended on the way here.
        sys.exit(0)


if __name__ == "__main__":
    main()
