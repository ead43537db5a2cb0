// SPDX-License-Identifier: Apache-2.0
// Endless pings of a guest, counted by its kernel.
import { eventually, type GuestConsole } from "@patchbay/support";

/** Pings per run, and the interval, milliseconds. */
const GO = { count: 300, intervalMs: 10 };
/** Limit for a command and for late replies on a busy machine. */
const LATE_MS = 30_000;

/** Pings that a guest sent and replies that it received since boot. */
interface Echoes {
  readonly sent: number;
  readonly received: number;
}

async function echoesOf(console: GuestConsole): Promise<Echoes> {
  const { lines } = await console.run("echoes");
  const match = /sent (\d+) received (\d+)/.exec(lines.join("\n"));
  return { sent: Number(match?.[1] ?? "0"), received: Number(match?.[2] ?? "0") };
}

/**
 * Pings until they are stopped. The guest's kernel counts them, because ping itself ends a second after its last packet
 * and counts late replies as lost.
 */
export class Pings {
  #isOver = false;
  readonly #console: GuestConsole;
  readonly #before: Echoes;
  readonly #ended: Promise<void>;

  private constructor(
    console: GuestConsole,
    { ip, before }: { readonly ip: string; readonly before: Echoes },
  ) {
    this.#console = console;
    this.#before = before;
    this.#ended = this.#run(ip);
  }

  /** `console` must stay open: looking it up may block this process. */
  static async start(console: GuestConsole, ip: string): Promise<Pings> {
    return new Pings(console, { ip, before: await echoesOf(console) });
  }

  /** The number sent, if all are answered. */
  async stop(): Promise<number> {
    this.#isOver = true;
    await this.#ended;
    return eventually(
      async () => {
        const { sent, received } = await echoesOf(this.#console);
        const isAnswered = sent - this.#before.sent === received - this.#before.received;
        return isAnswered ? sent - this.#before.sent : undefined;
      },
      { withinMs: LATE_MS },
    );
  }

  async #run(ip: string): Promise<void> {
    const { count, intervalMs } = GO;
    const command = `ping ${ip} ${String(count)} ${String(intervalMs)}`;
    while (!this.#isOver) {
      await this.#console.run(command, { timeoutMs: count * intervalMs + LATE_MS });
    }
  }
}
