// SPDX-License-Identifier: Apache-2.0
// An agent that dies after some of its changes.
import { createNetlink, createProcessRunner } from "@patchbay/os";
import type { Netlink, ProcessRunner } from "@patchbay/core/interfaces";

/** Questions. Source: linux/rtnetlink.h, RTM_GETLINK, RTM_GETADDR, RTM_GETNEIGH */
const QUESTIONS = [18, 22, 30];

function died(): Error {
  return new Error("the process has died");
}

/** How many changes an agent makes before it dies, whichever way it makes them. */
class Changes {
  #left: number;

  constructor(left: number) {
    this.#left = left;
  }

  /** Whether one more is made. */
  take(): boolean {
    this.#left -= 1;
    return this.#left >= 0;
  }
}

/** Programs: the kernel takes all that nft was given, or nothing, and writes settings one by one. */
function dyingRunner(changes: Changes): ProcessRunner {
  const runner = createProcessRunner();
  return {
    run: async (command) => {
      const given = (command.stdin ?? "").split("\n").filter((line) => line !== "");
      const lines = command.argv.includes("nft") ? [given.join("\n")] : given;
      if (given.length === 0) return runner.run(command);
      const done: string[] = [];
      while (done.length < lines.length && changes.take()) done.push(lines[done.length] ?? "");
      if (done.length === 0) throw died();
      const result = await runner.run({ ...command, stdin: `${done.join("\n")}\n` });
      if (done.length === lines.length) return result;
      throw died();
    },
    killFamily: () => Promise.resolve(),
  };
}

/** Messages, each of which is carried out before the next. */
function dyingNetlink(changes: Changes): Netlink {
  const netlink = createNetlink();
  return {
    ...netlink,
    talk: async (netns, protocol, messages) => {
      const isAsked = messages.every(([, , , , type = 0]) => QUESTIONS.includes(type));
      if (protocol !== "route" || isAsked) return netlink.talk(netns, protocol, messages);
      const done: Uint8Array[] = [];
      while (done.length < messages.length && changes.take()) {
        done.push(messages[done.length] ?? new Uint8Array());
      }
      const answers = await netlink.talk(netns, protocol, done);
      if (done.length === messages.length) return answers;
      throw died();
    },
    makeTap: (netns, tap) =>
      changes.take() ? netlink.makeTap(netns, tap) : Promise.reject(died()),
  };
}

/** What makes links, with which a process dies after so many changes. */
export function dyingAfter(count: number): { runner: ProcessRunner; netlink: Netlink } {
  const changes = new Changes(count);
  return { runner: dyingRunner(changes), netlink: dyingNetlink(changes) };
}
