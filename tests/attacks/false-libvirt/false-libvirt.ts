// SPDX-License-Identifier: Apache-2.0
// False libvirt daemons for one test.
import { spawn, type ChildProcess, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { chmodSync, closeSync, mkdtempSync, readdirSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { isAppError, type Logger } from "@patchbay/base";
import { createHypervisor } from "@patchbay/libvirt";
import { createClock } from "@patchbay/os";
import type {
  Hypervisor,
  HypervisorAddress,
  HypervisorConnection,
} from "@patchbay/core/interfaces";
import { createBuiltChildStarter, openInode } from "@patchbay/support";

export const LAUNCHER = { uid: 107, gid: 107 };

/** libvirt's test driver as another tenant's VM. */
const NEIGHBOR = { kind: "uri", uri: "test:///default" } as const;

const program = fileURLToPath(new URL("./false-libvirtd.ts", import.meta.url));

export class FalseDaemons {
  readonly #directory = mkdtempSync(join(tmpdir(), "false-libvirt-"));
  readonly #processes: ChildProcess[] = [];
  readonly #descriptors: number[] = [];

  constructor() {
    chmodSync(this.#directory, 0o755);
  }

  /** Starts a daemon in its own process; returns its socket. */
  async start(behaviour: string): Promise<HypervisorAddress> {
    const path = this.#nextPath();
    const argv = [program, path, behaviour];
    return this.#started(
      spawn(process.execPath, argv, { stdio: ["ignore", "pipe", "inherit"] }),
      path,
    );
  }

  #nextPath(): string {
    return join(this.#directory, `${String(this.#processes.length)}.sock`);
  }

  async #started(
    child: ChildProcessByStdio<null, Readable, null>,
    path: string,
  ): Promise<HypervisorAddress> {
    this.#processes.push(child);
    await once(child.stdout, "data");
    return this.#addressOf(path);
  }

  #addressOf(path: string): HypervisorAddress {
    const fd = openInode(path);
    this.#descriptors.push(fd);
    return { kind: "socket", fd };
  }

  /** A socket on which two processes alternately listen, as fast as they can, without accepting. */
  async startListeners(): Promise<HypervisorAddress> {
    const path = this.#nextPath();
    const program = `use Socket; $| = 1; socket(S, PF_UNIX, SOCK_STREAM, 0) or die $!;
      bind(S, pack_sockaddr_un($ARGV[0])) or die $!; chmod 0777, $ARGV[0]; listen(S, 1000) or die $!;
      my $parent = $$; fork(); print "listening";
      while (getppid() == $parent || $$ == $parent) { listen(S, 1000); select(undef, undef, undef, 0.0002); }`;
    return this.#started(
      spawn("perl", ["-e", program, path], { stdio: ["ignore", "pipe", "inherit"] }),
      path,
    );
  }

  /** Starts daemons in their own processes that accept connections and never answer. */
  async startSilent(count: number): Promise<readonly HypervisorAddress[]> {
    const paths = Array.from({ length: count }, (_, index) =>
      join(this.#directory, `silent-${String(index)}.sock`),
    );
    const program = `use Socket; $| = 1; my $parent = $$; pipe(R, W) or die $!;
      for my $path (@ARGV) { next if fork(); socket(S, PF_UNIX, SOCK_STREAM, 0) or die $!;
        bind(S, pack_sockaddr_un($path)) or die $!; chmod 0777, $path; listen(S, 100) or die $!;
        syswrite(W, "x"); while (getppid() == $parent) { select(undef, undef, undef, 1); } exit; }
      my $left = @ARGV; while ($left) { $left -= sysread(R, my $words, 100); }
      print "listening"; sleep;`;
    const child = spawn("perl", ["-e", program, ...paths], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#processes.push(child);
    await once(child.stdout, "data");
    return paths.map((path) => this.#addressOf(path));
  }

  /** Renames their sockets; open descriptors stay valid. */
  renameSockets(): void {
    for (const name of readdirSync(this.#directory)) {
      renameSync(join(this.#directory, name), join(this.#directory, `${name}.away`));
    }
  }

  async close(): Promise<void> {
    for (const child of this.#processes) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const ended = once(child, "exit");
      child.kill("SIGKILL");
      await ended;
    }
    for (const fd of this.#descriptors) closeSync(fd);
    rmSync(this.#directory, { recursive: true });
  }
}

export function failureOf(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => "none",
    (error: unknown) => (isAppError(error) ? error.code : String(error)),
  );
}

/** libvirt as virt-handler uses it, attacked by false daemons, beside a neighbor that must stay unaffected. */
export class AttackedNode {
  readonly daemons = new FalseDaemons();
  readonly hypervisor: Hypervisor;
  /** Processes of the started children, in order. */
  readonly pids: number[] = [];
  readonly log: Logger;
  /** Logged lines without debug messages. */
  lines = 0;

  constructor(options: Partial<Parameters<typeof createHypervisor>[0]> = {}) {
    const note = (fields?: Readonly<Record<string, unknown>>): void => {
      this.lines += 1;
      if (typeof fields?.["pid"] === "number") this.pids.push(fields["pid"]);
    };
    const log = (_message: string, fields?: Readonly<Record<string, unknown>>): void => {
      note(fields);
    };
    const debug = (): void => undefined;
    const logger: Logger = { debug, info: log, warn: log, error: log, child: () => logger };
    this.log = logger;
    const ports = { starter: createBuiltChildStarter(), clock: createClock(), logger };
    this.hypervisor = createHypervisor({ ...ports, identity: LAUNCHER, ...options });
  }

  /** Connects to a daemon with that behavior. */
  async attack(behaviour: string): Promise<HypervisorConnection> {
    return this.hypervisor.open(await this.daemons.start(behaviour));
  }

  neighbour(): Promise<HypervisorConnection> {
    return this.hypervisor.open(NEIGHBOR);
  }

  async close(): Promise<void> {
    await this.hypervisor.close();
    await this.daemons.close();
  }
}
