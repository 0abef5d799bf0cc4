"""`albert-rc serve`: a local web page for answering papers, and an HTTP API."""

from __future__ import annotations

import os
from threading import Thread
from typing import Annotated, Literal

import typer

from albert_rc.cli import options, settings
from albert_rc.cli.console import example, say
from albert_rc.errors import Interrupted, UsageError


@example("albert-rc serve --model models/run1 --open")
def serve(
    model: Annotated[
        str | None,
        typer.Option(
            help="Model: a run's folder, a hub id, or a model of the package (default: "
            "albert-rc-small for blanks, albert-rc-small-choice for questions)."
        ),
    ] = None,
    host: Annotated[
        str,
        typer.Option(
            help="Address to listen on; the default can only be reached from this machine."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 for any free port.")
    ] = 8000,
    option_score: Annotated[
        Literal["once", "masks", "excerpt"] | None,
        typer.Option(
            help="How to read some questions a second time, for more accurate answers. masks: "
            "blanks with options of several words, with a [MASK] per piece. excerpt: questions "
            "about long passages, with the part that shares most words with them. once: not at all "
            "(default: as in the models' config.json, else once)."
        ),
    ] = None,
    max_megabytes: Annotated[
        float,
        typer.Option(
            min=0.001, max=1000, help="Maximum size of a request, in megabytes.", hidden=True
        ),
    ] = 30,
    open_: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    set_: settings.Set = None,
    device: options.Device = None,
) -> None:
    """Open a local web page that answers papers: paste or upload, correct, and save as JSON.

    Nothing leaves this machine. There is also an HTTP API, described on the page /api. Stop the
    server with Ctrl-C.
    """
    import webbrowser

    if os.environ.get("WORLD_SIZE", "1") != "1":
        raise UsageError("serve runs in one process; start it without torchrun")
    try:
        import python_multipart  # noqa: F401 - Starlette would only fail at the first form

        from albert_rc.serve.listen import address_of, names_of, open_socket, server_of
        from albert_rc.serve.web import make_app
    except ImportError as error:
        raise UsageError(f'serve needs {error.name}; pip install "albert-rc[serve]"') from None
    from albert_rc.runtime.devices import processes
    from albert_rc.runtime.heap import keep_freed_memory
    from albert_rc.serve.engine import Engine
    from albert_rc.serve.limits import MEGABYTE, Limits

    listener, loopback = open_socket(host, port)
    with listener:
        if not loopback:
            say(
                f"warning: with --host {host}, anyone who can reach this port can use the model; "
                "there is no password, and papers are sent unencrypted"
            )
        with processes(device) as group:
            limits = Limits(body_bytes=int(max_megabytes * MEGABYTE))
            engine = Engine(model, group, limits, say, option_score)
            keep_freed_memory()  # not before: memory used for loading is returned
            address = address_of(listener, host)

            def started() -> None:
                typer.echo(f"serving {engine.name} at {address} (stop with Ctrl-C)")
                if open_:
                    # A browser in the terminal would block the server.
                    Thread(target=webbrowser.open, args=(address,), daemon=True).start()

            app = make_app(engine, names_of(host) if loopback else None, started)
            try:
                server_of(app).run(sockets=[listener])
            except (KeyboardInterrupt, Interrupted):
                pass  # the normal way to stop
            finally:
                engine.close()
    say("stopped")
