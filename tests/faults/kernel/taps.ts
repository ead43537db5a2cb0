// SPDX-License-Identifier: Apache-2.0
// Holds taps open like QEMU.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";

/** Opens a tap with IFF_TAP, IFF_NO_PI and IFF_VNET_HDR by TUNSETIFF. Source: linux/if_tun.h */
const PROGRAM = `$| = 1; open(T, "+<", "/dev/net/tun") or die $!;
  my $request = pack("Z16 S x22", $ARGV[0], 0x5002);
  ioctl(T, 0x400454ca, $request) or die "$ARGV[0]: $!"; print "open"; sleep;`;

export class OpenTaps {
  readonly #holders = new Map<string, ChildProcess>();

  /** Resolves when it is open; an earlier one of that name is closed. */
  async open(netnsPath: string, name: string): Promise<void> {
    await this.#close(`${netnsPath} ${name}`);
    const argv = [`--net=${netnsPath}`, "perl", "-e", PROGRAM, name];
    const child = spawn("nsenter", argv, { stdio: ["ignore", "pipe", "ignore"] });
    this.#holders.set(`${netnsPath} ${name}`, child);
    // A tap that cannot be opened counts as missing: QEMU would report it and continue.
    await Promise.race([once(child.stdout, "data"), once(child, "exit")]);
  }

  /** Closes all in that namespace, or everywhere. */
  async closeAll(netnsPath = ""): Promise<void> {
    const places = [...this.#holders.keys()].filter((place) => place.startsWith(netnsPath));
    await Promise.all(places.map((place) => this.#close(place)));
  }

  async #close(place: string): Promise<void> {
    const child = this.#holders.get(place);
    this.#holders.delete(place);
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }
}
