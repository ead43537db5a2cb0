// SPDX-License-Identifier: Apache-2.0
// Runs programs from a small process, because fork copies page tables: for the 200 MB of a test process this takes
// several times as long as `ip` itself, and tests run thousands of programs.
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, openSync, readFileSync, readSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** Runs the script in a file for each input line and returns the exit code; ends with its parent. */
const SERVE = `
  while read -r _; do
    . "$1/command" </dev/null >"$1/stdout" 2>"$1/stderr"
    echo "$?"
  done <"$1/asked" >"$1/answered"
  rm -r "$1"`;

/** Exit code of `timeout` for a missing program, like a shell's. Source: POSIX, Shell Command Language, 2.8.2 */
const NOT_FOUND = 127;
/** Time limit in seconds; a killed program has exit code 137. */
const TIMEOUT_S = 120;

interface Ended {
  readonly status: number;
  readonly stdout: string;
  readonly stderr: string;
}

function quote(word: string): string {
  return `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

/** The process with its pipes. */
class Runner {
  readonly #directory = mkdtempSync(join(tmpdir(), "patchbay-run-"));
  readonly #asked: number;
  readonly #answered: number;

  constructor() {
    execFileSync("mkfifo", [this.#path("asked"), this.#path("answered")]);
    spawn("sh", ["-c", SERVE, "sh", this.#directory], { stdio: "ignore" }).unref();
    // Each open waits for the other side; the shell opens them in the same order.
    this.#asked = openSync(this.#path("asked"), "w");
    this.#answered = openSync(this.#path("answered"), "r");
  }

  run(argv: readonly string[]): Ended {
    const bounded = ["timeout", "--signal=KILL", String(TIMEOUT_S), ...argv];
    writeFileSync(this.#path("command"), bounded.map(quote).join(" "));
    writeSync(this.#asked, "\n");
    const answer = Buffer.alloc(16);
    const length = readSync(this.#answered, answer);
    if (length === 0) throw new Error("the shell that runs programs has ended");
    const status = Number(answer.toString("utf8", 0, length));
    return { status, stdout: this.#read("stdout"), stderr: this.#read("stderr") };
  }

  #path(name: string): string {
    return join(this.#directory, name);
  }

  #read(name: string): string {
    return readFileSync(this.#path(name), "utf8");
  }
}

let runner: Runner | undefined;

/** Runs a program without input, in the environment of the first call; returns the output. */
export function run(...argv: readonly [string, ...string[]]): string {
  runner ??= new Runner();
  const { status, stdout, stderr } = runner.run(argv);
  if (status === 0) return stdout;
  const what = status === NOT_FOUND ? "No such program" : "Command failed";
  throw new Error(`${what}: ${argv.join(" ")}: exit code ${String(status)}: ${stderr}`);
}
