// SPDX-License-Identifier: Apache-2.0
// Counts the places where a guest runs: polls libvirt on each node by one virsh per launcher.
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { names } from "@patchbay/api";

/** Interval of polls, milliseconds. */
const LOOK_MS = 10;
/** Time limit of a reply, milliseconds, because an ending launcher may never answer. */
const ANSWER_MS = 3_000;
/** virsh's mark at the end of a reply. */
const MARK = "answered";

/** A virsh that stays connected to one launcher. */
class Asked {
  readonly #child: ChildProcess;
  readonly #directory: string;
  readonly #answers: ((lines: readonly string[]) => void)[] = [];
  #said = "";

  constructor(launcherDir: string) {
    this.#directory = mkdtempSync(join(tmpdir(), "virsh-"));
    // The socket's path is too long for a socket address.
    symlinkSync(launcherDir, join(this.#directory, "l"));
    const socket = join(this.#directory, "l/libvirt/libvirt-sock");
    const uri = `qemu+unix:///session?socket=${socket}`;
    this.#child = spawn("virsh", ["-q", "-c", uri], { stdio: ["pipe", "pipe", "ignore"] });
    this.#child.stdin?.on("error", () => undefined);
    this.#child.stdout?.on("data", (bytes: Buffer) => {
      this.#hear(bytes.toString());
    });
    this.#child.on("exit", () => {
      for (const answer of this.#answers.splice(0)) answer([]);
    });
  }

  /** It echoes each command behind its prompt, and its mark without a newline. */
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

  /** Its reply; empty: it failed or ended. */
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

  /** Whether to poll it again. */
  get isOpen(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  close(): void {
    this.#child.kill();
    rmSync(this.#directory, { recursive: true });
  }
}

/** The guest's state, by its VMI. */
export interface Whereabouts {
  readonly domain: string;
  readonly nodes: readonly string[];
  /** Current uids of its pods. */
  readonly pods: () => readonly string[];
}

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

  /** Number of polls, and how many found it running in more than one place. */
  get seen(): { readonly looks: number; readonly twice: number } {
    return { looks: this.#looks, twice: this.#twice };
  }

  /** The longest downtime since the last call, milliseconds; its precision is the poll interval. */
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

  /** libvirt's statistics at its current place about its incoming migration: `KEY: VALUE`, a line each. */
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

  /** Polls are sequential: a domain found running before and after another one has run beside it. */
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
