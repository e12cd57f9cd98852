"""A parent with two children and a traced step, for `flyte run`.

    pip install flyte
    flyte --endpoint localhost:8090 --insecure run -p flytesnacks -d development --follow hello.py main --x 1
"""

import asyncio

import flyte

env = flyte.TaskEnvironment("hello")


@env.task
async def double(i: int) -> int:
    print(f"doubling {i}")
    return 2 * i


@flyte.trace
async def add(a: int, b: int) -> int:
    return a + b


@env.task
async def main(x: int) -> int:
    a, b = await asyncio.gather(double(x), double(x + 1))
    return await add(a, b)
