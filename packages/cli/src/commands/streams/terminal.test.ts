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

describe("a terminal on a console", () => {
  test("is raw until Ctrl-], which does not reach the guest", async () => {
    const { input, output, modes } = terminalOf(true);
    const joined = joinTerminal({ input, output, stream }, never);
    input.write("root\r\u001drest");
    await joined;
    await new Promise((resolve) => guest.once("close", resolve));
    expect(heard).toBe("root\r");
    expect(modes).toEqual([true, false]);
  });

  test("shows what the guest says, until the guest's side ends", async () => {
    const { input, output, modes } = terminalOf(true);
    const joined = joinTerminal({ input, output, stream }, never);
    guest.end("bye\r\n");
    await joined;
    expect(String(output.read())).toBe("bye\r\n");
    expect(modes).toEqual([true, false]);
  });

  test("is restored when the program is interrupted", async () => {
    const { input, output, modes } = terminalOf(true);
    const abort = new AbortController();
    const joined = joinTerminal({ input, output, stream }, abort.signal);
    abort.abort();
    await joined;
    expect(modes).toEqual([true, false]);
  });
});

describe("a pipe on a console", () => {
  test("sends everything, and ends when the guest has been silent for a second", async () => {
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
