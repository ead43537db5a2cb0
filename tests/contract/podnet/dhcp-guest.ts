// SPDX-License-Identifier: Apache-2.0
// A guest as a network namespace that asks for its addresses, as the small guest does.
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { run } from "@patchbay/support";

/** What udhcpc was given, by its own names of variables; source: busybox, udhcpc. */
export type Lease = Readonly<Record<string, string>>;

const OPTIONS = ["121", "mtu", "search", "66", "67", "224"].flatMap((name) => ["-O", name]);

/** Asks by DHCPv4 once, for two seconds at most; undefined: nobody answers. */
export function askIpv4(guest: string, nic = "eth0"): Lease | undefined {
  const directory = mkdtempSync(join(tmpdir(), "dhcp-guest-"));
  const [script, answer] = [join(directory, "script"), join(directory, "answer")];
  try {
    writeFileSync(script, `#!/bin/sh\n[ "$1" = bound ] && env >${answer} || true\n`);
    chmodSync(script, 0o755);
    const words = ["-i", nic, "-f", "-q", "-n", "-t", "2", "-T", "1", ...OPTIONS, "-s", script];
    run("ip", "netns", "exec", guest, "busybox", "udhcpc", ...words);
    const lines = readFileSync(answer, "utf8").trim().split("\n");
    return Object.fromEntries(
      lines.map((line): [string, string] => {
        const [name = "", value = ""] = line.split(/=(.*)/s);
        return [name, value];
      }),
    );
  } catch {
    return undefined;
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** Waits for a router advertisement, and takes what it says: the kernel does so by itself. */
export function defaultRouteOf(guest: string): string {
  return run("ip", "-n", guest, "-6", "route", "show", "default").trim();
}
