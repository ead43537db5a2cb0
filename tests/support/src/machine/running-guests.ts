// SPDX-License-Identifier: Apache-2.0
// In how many places does a guest run? Its libvirt is asked on each node, again and again, by one virsh for each launcher.
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { names } from "@patchbay/api";

/** Between two looks, milliseconds. */
const LOOK_MS = 10;
/** For which an answer is waited for, milliseconds: that of a launcher that is on its end may never come. */
const ANSWER_MS = 3_000;
/** What virsh prints behind an answer. */
const MARK = "answered";

/** A virsh that stays connected to one launcher. */
class Asked {
  readonly #child: ChildProcess;
  readonly #directory: string;
  readonly #answers: ((lines: readonly string[]) => void)[] = [];
  #said = "";

  constructor(launcherDir: string) {
    this.#directory = mkdtempSync(join(tmpdir(), "virsh-"));
    // The socket's path is longer than a socket's address may be.
    symlinkSync(launcherDir, join(this.#directory, "l"));
    const socket = join(this.#directory, "l/libvirt/libvirt-sock");
    const uri = `qemu+unix:///session?socket=${socket}`;
    this.#child = spawn("virsh", ["-q", "-c", uri], { stdio: ["pipe", "pipe", "ignore"] });
    this.#child.stdin?.on("error", () => undefined); // it has ended
    this.#child.stdout?.on("data", (bytes: Buffer) => {
      this.#hear(bytes.toString());
    });
    this.#child.on("exit", () => {
      for (const answer of this.#answers.splice(0)) answer([]);
    });
  }

  /** It says each command again, behind its prompt, and its mark without the end of a line. */
  #hear(text: string): void {
    this.#said += text;
    for (;;) {
      const at = this.#said.indexOf(`\n${MARK}`);
      if (at === -1) return;
      const lines = this.#said.slice(0, at).split("\n");
      this.#said = this.#said.slice(at + 1 + MARK.length);
      this.#answers.shift()?.(lines.filter((line) => line !== "" && !line.includes("virsh #")));
    }
  }

  /** What it answers; nothing: it refuses, or nobody is there. */
  async ask(command: string): Promise<readonly string[]> {
    if (!this.isOpen) return [];
    const answer = new Promise<readonly string[]>((resolve) => this.#answers.push(resolve));
    this.#child.stdin?.write(`${command}\necho ${MARK}\n`);
    const tooLong = setTimeout(() => this.#child.kill("SIGKILL"), ANSWER_MS);
    try {
      return await answer;
    } finally {
      clearTimeout(tooLong);
    }
  }

  /** Whether it is to be asked again. */
  get isOpen(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  close(): void {
    this.#child.kill();
    rmSync(this.#directory, { recursive: true });
  }
}

/** Where the guest is, by its VMI. */
export interface Whereabouts {
  readonly domain: string;
  /** Data directories of the nodes. */
  readonly nodes: readonly string[];
  /** Uids of its pods now. */
  readonly pods: () => readonly string[];
}

/** Looks until it is closed. */
export class RunningGuests {
  readonly #asked = new Map<string, Asked>();
  readonly #of: Whereabouts;
  #isOpen = true;
  #looks = 0;
  #twice = 0;
  #ranAt: number | undefined;
  #longestOffMs = 0;
  readonly #ended: Promise<void>;

  constructor(of: Whereabouts) {
    this.#of = of;
    this.#ended = this.#run();
  }

  /** How often it was looked, and in how many of these it ran in more than one place. */
  get seen(): { readonly looks: number; readonly twice: number } {
    return { looks: this.#looks, twice: this.#twice };
  }

  /** The longest time since the last call of this for which it ran nowhere, milliseconds; as exact as the looks are close. */
  takeLongestOff(): number {
    const longest = this.#longestOffMs;
    this.#longestOffMs = 0;
    return longest;
  }

  #noteRunning(isSo: boolean): void {
    const now = performance.now();
    if (isSo) this.#ranAt = now;
    else this.#longestOffMs = Math.max(this.#longestOffMs, now - (this.#ranAt ?? now));
  }

  /** What libvirt says where it runs of the move by which it came there: `KEY: VALUE`, a line each. */
  async arrival(): Promise<readonly string[]> {
    for (const one of this.#asked.values()) {
      if (await this.#isRunning(one)) return one.ask(`domjobinfo ${this.#of.domain} --completed`);
    }
    return [];
  }

  #follow(): void {
    const { nodes, pods } = this.#of;
    for (const uid of pods()) {
      const volume = join("pods", uid, names.EMPTY_DIR_VOLUMES, names.LAUNCHER_VOLUME);
      const directory = nodes
        .map((dataDir) => join(dataDir, volume))
        .find((path) => existsSync(join(path, "libvirt/libvirt-sock")));
      if (directory === undefined || this.#asked.get(uid)?.isOpen === true) continue;
      this.#asked.get(uid)?.close();
      this.#asked.set(uid, new Asked(directory));
    }
  }

  async #isRunning(one: Asked): Promise<boolean> {
    return (await one.ask(`domstate ${this.#of.domain}`))[0] === "running";
  }

  /** One that ran before and after another did has run beside it: answers come one after the other. */
  async #look(): Promise<void> {
    this.#looks += 1;
    const running: Asked[] = [];
    for (const one of this.#asked.values()) {
      if (await this.#isRunning(one)) running.push(one);
    }
    this.#noteRunning(running.length > 0);
    const [first] = running;
    if (running.length > 1 && first !== undefined && (await this.#isRunning(first))) {
      this.#twice += 1;
    }
  }

  async #run(): Promise<void> {
    while (this.#isOpen) {
      if (this.#looks % 20 === 0) this.#follow();
      await this.#look();
      await delay(LOOK_MS);
    }
  }

  async close(): Promise<void> {
    this.#isOpen = false;
    await this.#ended;
    for (const one of this.#asked.values()) one.close();
  }
}
