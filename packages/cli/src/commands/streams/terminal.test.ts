// SPDX-License-Identifier: Apache-2.0
import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { PassThrough } from "node:stream";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { joinTerminal } from "./terminal.ts";

let server: Server;
let guest: Socket;
let stream: Socket;
let heard = "";

beforeEach(async () => {
  heard = "";
  const joined = Promise.withResolvers<Socket>();
  server = createServer(joined.resolve);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  stream = connect((server.address() as AddressInfo).port); // it listens on TCP
  guest = await joined.promise;
  guest.on("data", (chunk: Buffer) => (heard += chunk.toString()));
});
afterEach(() => {
  guest.destroy();
  server.close();
});

interface Terminal {
  readonly input: PassThrough & { isTTY: boolean; setRawMode: (on: boolean) => void };
  readonly output: PassThrough;
  readonly modes: readonly boolean[];
}

function terminalOf(isTTY: boolean): Terminal {
  const modes: boolean[] = [];
  const setRawMode = (on: boolean): void => {
    modes.push(on);
  };
  const input = Object.assign(new PassThrough(), { isTTY, setRawMode });
  return { input, output: new PassThrough(), modes };
}

const never = new AbortController().signal;

describe("joinTerminal with a terminal", () => {
  test("sets the terminal to raw mode until Ctrl-], which is not sent to the guest", async () => {
    const { input, output, modes } = terminalOf(true);
    const joined = joinTerminal({ input, output, stream }, never);
    input.write("root\r\u001drest");
    await joined;
    await new Promise((resolve) => guest.once("close", resolve));
    expect(heard).toBe("root\r");
    expect(modes).toEqual([true, false]);
  });

  test("prints the guest's output until the stream ends", async () => {
    const { input, output, modes } = terminalOf(true);
    const joined = joinTerminal({ input, output, stream }, never);
    guest.end("bye\r\n");
    await joined;
    expect(String(output.read())).toBe("bye\r\n");
    expect(modes).toEqual([true, false]);
  });

  test("restores the terminal after an interrupt", async () => {
    const { input, output, modes } = terminalOf(true);
    const abort = new AbortController();
    const joined = joinTerminal({ input, output, stream }, abort.signal);
    abort.abort();
    await joined;
    expect(modes).toEqual([true, false]);
  });
});

describe("joinTerminal with a pipe", () => {
  test("sends all input and ends after one second without output", async () => {
    const { input, output, modes } = terminalOf(false);
    const joined = joinTerminal({ input, output, stream }, never);
    input.end("report\u001d\n");
    guest.write("report ok\n");
    await joined;
    expect(heard).toBe("report\u001d\n");
    expect(String(output.read())).toBe("report ok\n");
    expect(modes).toEqual([]);
  });
});
