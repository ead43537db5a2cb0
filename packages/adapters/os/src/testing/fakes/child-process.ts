// SPDX-License-Identifier: Apache-2.0
// Fake child processes, whose code runs in this process.
import { AppError, messageOf } from "@patchbay/base";
import type {
  ChildChannel,
  ChildMain,
  ChildProcessHandle,
  ChildProgram,
  ChildStarter,
  ClaimedDescriptor,
} from "@patchbay/core/interfaces";

/** Limit of the interface ChildChannel. */
const MESSAGE_BYTES_MAX = 8 * 1024 * 1024;

export interface FakeChildStarter extends ChildStarter {
  /** Started children, in order. */
  readonly children: readonly ChildProcessHandle[];
}

/** One end of a channel. Messages arrive in a later microtask, and not after the child has ended. */
class MemoryChannel implements ChildChannel {
  readonly #life: { isOver: boolean };
  readonly #pending: unknown[] = [];
  readonly #descriptors = new Map<number, number>();
  #listener: ((message: unknown) => void) | undefined;
  peer: MemoryChannel | undefined;

  constructor(life: { isOver: boolean }) {
    this.#life = life;
  }

  send(message: unknown): void {
    const text = JSON.stringify(message);
    const bytes = text.length;
    if (bytes >= MESSAGE_BYTES_MAX) {
      throw new AppError("OS_MESSAGE_TOO_LONG", { bytes, bytesMax: MESSAGE_BYTES_MAX });
    }
    queueMicrotask(() => this.peer?.receive(JSON.parse(text)));
  }

  onMessage(listener: (message: unknown) => void): void {
    this.#listener = listener;
    for (const message of this.#pending.splice(0)) listener(message);
  }

  sendDescriptor(fd: number, token: number): void {
    if (this.#life.isOver) throw noDescriptor("sendmsg");
    this.peer?.receiveDescriptor(fd, token);
  }

  claimDescriptor(token: number): ClaimedDescriptor {
    const fd = this.#descriptors.get(token);
    if (fd === undefined) throw noDescriptor("recvmsg");
    this.#descriptors.delete(token);
    return { fd, close: () => undefined };
  }

  receive(message: unknown): void {
    if (this.#life.isOver) return;
    if (this.#listener === undefined) this.#pending.push(message);
    else this.#listener(message);
  }

  receiveDescriptor(fd: number, token: number): void {
    this.#descriptors.set(token, fd);
  }
}

function noDescriptor(call: string): AppError {
  return new AppError("OS_FILE_FAILED", { call, path: "descriptor", reason: "there is none" });
}

function startIn(main: ChildMain, pid: number): ChildProcessHandle {
  const life = { isOver: false };
  const ours = new MemoryChannel(life);
  const theirs = new MemoryChannel(life);
  ours.peer = theirs;
  theirs.peer = ours;
  const end = Promise.withResolvers<string>();
  main(theirs);
  return {
    pid,
    ended: end.promise,
    kill: () => {
      life.isOver = true;
      end.resolve("SIGKILL");
    },
    send: (message) => {
      ours.send(message);
    },
    onMessage: (listener) => {
      ours.onMessage(listener);
    },
    sendDescriptor: (fd, token) => {
      ours.sendDescriptor(fd, token);
    },
    claimDescriptor: (token) => ours.claimDescriptor(token),
  };
}

export function createFakeChildStarter(
  modules: Readonly<Record<string, ChildMain>>,
): FakeChildStarter {
  const children: ChildProcessHandle[] = [];
  const start = ({ module }: ChildProgram): Promise<ChildProcessHandle> => {
    try {
      const main = modules[module];
      if (main === undefined) throw new Error(`there is no ${module}`);
      const child = startIn(main, children.length + 1);
      children.push(child);
      return Promise.resolve(child);
    } catch (error) {
      const details = { program: module, exitCode: "no start", stderr: messageOf(error) };
      return Promise.reject(new AppError("OS_PROGRAM_FAILED", details));
    }
  };
  return { start, children };
}
