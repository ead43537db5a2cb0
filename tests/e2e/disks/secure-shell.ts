// SPDX-License-Identifier: Apache-2.0
// A user with an SSH key at a guest's SSH server, through the API server alone.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "@patchbay/support";
import { machine } from "../machine.ts";
import { DEBIAN_BOOT_MS } from "./debian.ts";

/** The guest's host key is accepted without a prompt. */
const UNASKED = ["--local-ssh-opts=-o StrictHostKeyChecking=no"];

export interface ShellStory {
  /** Output of a command in the guest, and its local exit code. */
  readonly said: string;
  readonly code: number | null;
  /** A file after copying it there and back. */
  readonly copied: string;
}

export class SecureShell {
  readonly #directory = mkdtempSync(join(tmpdir(), "patchbay-ssh-"));
  readonly #key = join(this.#directory, "key");

  constructor() {
    const args = ["-q", "-N", "", "-t", "ed25519", "-f", this.#key];
    execFileSync("ssh-keygen", args, { stdio: "inherit" });
  }

  /** In the form of user data. */
  get publicKey(): string {
    return readFileSync(`${this.#key}.pub`, "utf8").trim();
  }

  #run(command: string, ...args: readonly string[]): ReturnType<typeof machine.try> {
    const known = join(this.#directory, "known");
    const flags = ["-i", this.#key, "--known-hosts", known, ...UNASKED];
    return machine.try(["patchbay", "--data-dir", machine.dataDir, command, ...flags, ...args]);
  }

  /** File with the public key. */
  get publicKeyFile(): string {
    return `${this.#key}.pub`;
  }

  /** Output of a command in the guest; waits until the guest accepts the login. */
  async print(guest: string, command: string): Promise<string> {
    return eventually(
      () => {
        const run = this.#run("ssh", guest, "-c", command);
        if (run.code !== 0) throw new Error(run.stderr);
        return run.stdout;
      },
      { withinMs: DEBIAN_BOOT_MS },
    );
  }

  async visit(vm: string): Promise<ShellStory> {
    const guest = `root@vm/${vm}/default`;
    const { code, stdout } = await eventually(
      () => {
        const run = this.#run("ssh", guest, "-c", "hostname; exit 7");
        if (run.code !== 7) throw new Error(run.stderr);
        return run;
      },
      { withinMs: DEBIAN_BOOT_MS },
    );
    const file = join(this.#directory, "a file");
    writeFileSync(file, "there and back");
    for (const ends of [
      [file, `${guest}:/root/copied`],
      [`${guest}:/root/copied`, `${file}.back`],
    ]) {
      const run = this.#run("scp", ...ends);
      if (run.code !== 0) throw new Error(run.stderr);
    }
    return { said: stdout.trim(), code, copied: readFileSync(`${file}.back`, "utf8") };
  }

  /** Removes the local files. */
  close(): void {
    rmSync(this.#directory, { recursive: true });
  }
}
