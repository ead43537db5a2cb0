// SPDX-License-Identifier: Apache-2.0
// An agent that dies after some of its changes.
import { createNetlink, createProcessRunner } from "@patchbay/os";
import type { Netlink, ProcessRunner } from "@patchbay/core/interfaces";

/** Read requests. Source: linux/rtnetlink.h, RTM_GETLINK, RTM_GETADDR, RTM_GETNEIGH, RTM_GETQDISC */
const REQUESTS = [18, 22, 30, 38];

function died(): Error {
  return new Error("the process has died");
}

/** Number of changes before the agent dies, by either way of making them. */
class Changes {
  #left: number;

  constructor(remaining: number) {
    this.#left = remaining;
  }

  /** Whether one more change is allowed. */
  take(): boolean {
    this.#left -= 1;
    return this.#left >= 0;
  }
}

/** Programs: nft is atomic, and settings are written one by one. */
function dyingRunner(changes: Changes): ProcessRunner {
  const runner = createProcessRunner();
  return {
    run: async (command) => {
      const input = (command.stdin ?? "").split("\n").filter((line) => line !== "");
      const lines = command.argv.includes("nft") ? [input.join("\n")] : input;
      if (input.length === 0) return runner.run(command);
      const done: string[] = [];
      while (done.length < lines.length && changes.take()) done.push(lines[done.length] ?? "");
      if (done.length === 0) throw died();
      const result = await runner.run({ ...command, stdin: `${done.join("\n")}\n` });
      if (done.length === lines.length) return result;
      throw died();
    },
    killProcessFamily: () => Promise.resolve(),
  };
}

/** Messages, executed in order. */
function dyingNetlink(changes: Changes): Netlink {
  const netlink = createNetlink();
  return {
    ...netlink,
    exchangeMessages: async (netns, protocol, messages) => {
      const isRequest = messages.every(([, , , , type = 0]) => REQUESTS.includes(type));
      if (protocol !== "route" || isRequest)
        return netlink.exchangeMessages(netns, protocol, messages);
      const done: Uint8Array[] = [];
      while (done.length < messages.length && changes.take()) {
        done.push(messages[done.length] ?? new Uint8Array());
      }
      const answers = await netlink.exchangeMessages(netns, protocol, done);
      if (done.length === messages.length) return answers;
      throw died();
    },
    makeTap: (netns, tap) =>
      changes.take() ? netlink.makeTap(netns, tap) : Promise.reject(died()),
  };
}

/** A link adapter that kills the process after so many changes. */
export function dyingAfter(count: number): { runner: ProcessRunner; netlink: Netlink } {
  const changes = new Changes(count);
  return { runner: dyingRunner(changes), netlink: dyingNetlink(changes) };
}
