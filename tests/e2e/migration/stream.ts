// SPDX-License-Identifier: Apache-2.0
// A TCP connection that a guest keeps through its migrations: it sends consecutive numbers.
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";

/** Pause between reads, milliseconds: it throttles the guest, which sends no faster than the reader. */
const REST_MS = 100;

/** The host's end, at its own address on a bridge. */
export class NumberStream {
  readonly #server: Server;
  readonly #bridge: string;
  readonly #cidr: string;
  #socket: Socket | undefined;
  #rest = "";
  #last = 0;
  #connections = 0;
  readonly #faults: string[] = [];

  private constructor(bridge: string, cidr: string) {
    this.#bridge = bridge;
    this.#cidr = cidr;
    this.#server = createServer((socket) => {
      this.#take(socket);
    });
  }

  static async listen(bridge: string, cidr: string): Promise<NumberStream> {
    // Also if a killed run left it.
    execFileSync("ip", ["addr", "replace", cidr, "dev", bridge]);
    const stream = new NumberStream(bridge, cidr);
    const [host] = cidr.split("/");
    stream.#server.listen({ host, port: 0 });
    await once(stream.#server, "listening");
    return stream;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** The last received number. */
  get last(): number {
    return this.#last;
  }

  /** Faults: a number out of order, a closed connection, or a second one. */
  get faults(): readonly string[] {
    return this.#faults;
  }

  #take(socket: Socket): void {
    this.#connections += 1;
    if (this.#connections > 1) this.#faults.push("a second connection");
    this.#socket = socket;
    socket.on("data", (bytes) => {
      this.#read(bytes.toString("latin1"));
      socket.pause();
      setTimeout(() => socket.resume(), REST_MS);
    });
    socket.on("error", (error) => this.#faults.push(error.message));
    socket.on("end", () => this.#faults.push("the guest has ended it"));
  }

  #read(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    for (const line of lines) {
      const number = Number(line);
      if (number !== this.#last + 1) {
        this.#faults.push(`after ${String(this.#last)} came ${line.slice(0, 20)}`);
      }
      this.#last = number;
    }
  }

  close(): void {
    this.#socket?.removeAllListeners("end");
    this.#socket?.destroy();
    this.#server.close();
    execFileSync("ip", ["addr", "del", this.#cidr, "dev", this.#bridge]);
  }
}
