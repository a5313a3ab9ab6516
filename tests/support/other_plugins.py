"""The plugins that pytest loads in the development environment beside ours and xdist."""

OTHER_PLUGINS = ("anyio", "asyncio", "benchmark", "hypothesispytest", "platformdirs", "timeout")
