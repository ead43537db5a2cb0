// SPDX-License-Identifier: Apache-2.0
// A guest with Debian's kernel for plugins whose drivers this machine's kernel may lack.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { AppError } from "@patchbay/base";
import type { Command, CommandResult, ProcessRunner } from "@patchbay/core/interfaces";
import { eventually, KERNEL_ARGS } from "@patchbay/support";

const ROOT = join(import.meta.dirname, "../../../..");
/** Under emulation it boots in some seconds; beside others in a minute. */
const BOOT = { withinMs: 120_000 };
/** Longer than any test needs it. */
const LIFE_SECONDS = "600";
/** A shell's exit code for a missing program. Source: POSIX sh, 2.8.2. */
const NO_SUCH_PROGRAM = 127;

function quote(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

function toBase64(text: string): string {
  return Buffer.from(text).toString("base64");
}

function fromBase64(text = ""): string {
  return Buffer.from(text, "base64").toString();
}

/** The guest's programs, which run one after the other. Shut it down at the end. */
export class PluginGuest implements ProcessRunner {
  readonly #directory: string;
  readonly #process: ChildProcess;
  readonly #socket: Socket;
  readonly #lines: AsyncIterator<string>;
  #last: Promise<unknown> = Promise.resolve();

  private constructor(directory: string, process: ChildProcess, socket: Socket) {
    this.#directory = directory;
    this.#process = process;
    this.#socket = socket;
    this.#lines = createInterface(socket)[Symbol.asyncIterator]();
  }

  /** Builds the guest's image once for all runs, and boots it. */
  static async boot(): Promise<PluginGuest> {
    const image = join(ROOT, ".cache/guest-plugins");
    mkdirSync(image, { recursive: true });
    execFileSync(join(ROOT, "hack/guest/make-plugins"), [image], { stdio: "inherit" });
    const directory = mkdtempSync(join(tmpdir(), "patchbay-plugins-"));
    const path = join(directory, "line");
    // Ends also when its parent is dead.
    const process = spawn("timeout", [
      LIFE_SECONDS,
      "qemu-system-x86_64",
      "-nodefaults",
      "-display",
      "none",
      "-no-reboot",
      "-machine",
      "q35",
      "-m",
      "256",
      "-kernel",
      join(image, "vmlinuz"),
      "-initrd",
      join(image, "initrd"),
      "-append",
      `${KERNEL_ARGS} panic=-1`,
      "-serial",
      `file:${join(directory, "log")}`,
      "-serial",
      `unix:${path},server=on`,
    ]);
    // It waits for input after its second line.
    const socket = await eventually(() => dial(path), BOOT);
    const guest = new PluginGuest(directory, process, socket);
    await guest.#next();
    return guest;
  }

  /** Runs a script in the guest's shell; returns its output. */
  async sh(script: string): Promise<string> {
    const { exitCode, stdout, stderr } = await this.#ask(script);
    if (exitCode !== 0) throw new Error(`${script}: ${stderr}`);
    return stdout;
  }

  async run({ argv, stdin = "", env = {} }: Command): Promise<CommandResult> {
    const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
    const words = ["env", "-i", ...variables, ...argv].map(quote).join(" ");
    const result = await this.#ask(`echo ${toBase64(stdin)} | base64 -d | ${words}`);
    if (result.exitCode !== NO_SUCH_PROGRAM) return result;
    throw new AppError("OS_PROGRAM_MISSING", { program: argv[0] });
  }

  killProcessFamily(): Promise<void> {
    return Promise.resolve();
  }

  close(): void {
    this.#socket.destroy();
    this.#process.kill();
    rmSync(this.#directory, { recursive: true, force: true });
  }

  #ask(script: string): Promise<CommandResult> {
    const requested = this.#last.then(async () => {
      this.#socket.write(`${toBase64(script)}\n`);
      const [code, output] = (await this.#next()).split(" ");
      const [stdout, stderr] = (output ?? "").split(":");
      return {
        exitCode: Number(code),
        stdout: fromBase64(stdout),
        stderr: fromBase64(stderr),
      };
    });
    this.#last = requested.catch(() => undefined); // a failure does not affect the next caller
    return requested;
  }

  async #next(): Promise<string> {
    const line = await this.#lines.next();
    if (line.done === true) throw new Error(readFileSync(join(this.#directory, "log"), "utf8"));
    return line.value;
  }
}

function dial(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect(path, () => {
      resolve(socket);
    });
    socket.once("error", reject);
  });
}
