// SPDX-License-Identifier: Apache-2.0
// A VM without disks boots a kernel from its network: DHCP and TFTP on the network's bridge.
import { execFileSync, spawn } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { bridgeNetworkManifest, diskVmManifest, KERNEL_ARGS } from "@patchbay/support";
import { beforeAll, expect, test } from "vitest";
import { machine } from "../machine.ts";
import { ROOT } from "../standalone.ts";

const NAME = "diskless";
const BRIDGE = "pbb-boot";
const SERVER = "10.77.4.1";
const BOOT_MS = 300_000;

const SCRIPT = `#!ipxe
kernel vmlinuz ${KERNEL_ARGS}
initrd initrd
boot
`;

/** Serves the small guest on the bridge; the returned function stops it. */
function serveGuest(directory: string): () => void {
  const image = join(ROOT, ".cache/guest");
  copyFileSync(join(image, "vmlinuz"), join(directory, "vmlinuz"));
  // Compressed, because an emulated NIC loads block by block.
  writeFileSync(join(directory, "initrd"), gzipSync(readFileSync(join(image, "initrd"))));
  writeFileSync(join(directory, "guest.ipxe"), SCRIPT);
  const options = [
    "--keep-in-foreground",
    "--conf-file=/dev/null",
    "--port=0",
    "--log-facility=-",
    `--interface=${BRIDGE}`,
    "--bind-interfaces",
    "--dhcp-range=10.77.4.100,10.77.4.200,1h",
    `--dhcp-leasefile=${join(directory, "leases")}`,
    "--dhcp-boot=guest.ipxe",
    "--enable-tftp",
    `--tftp-root=${directory}`,
    "--user=root",
  ];
  const server = spawn("dnsmasq", options, { stdio: "ignore" });
  return () => {
    server.kill();
  };
}

beforeAll(() => {
  const directory = mkdtempSync(join(tmpdir(), "patchbay-boot-"));
  const ip = (...args: readonly string[]): void => {
    execFileSync("ip", args);
  };
  ip("link", "add", BRIDGE, "type", "bridge");
  ip("address", "add", `${SERVER}/24`, "dev", BRIDGE);
  ip("link", "set", BRIDGE, "up");
  const stop = serveGuest(directory);
  machine.apply(
    bridgeNetworkManifest("boot", BRIDGE),
    diskVmManifest({
      name: NAME,
      disks: [],
      nics: [{ name: "boot", network: "boot", bootOrder: 1 }],
    }),
  );
  return () => {
    machine.delete("vm", NAME);
    stop();
    ip("link", "delete", BRIDGE);
    rmSync(directory, { recursive: true });
  };
});

test("a VM boots from its NIC", { timeout: BOOT_MS }, async () => {
  await machine.booted(NAME);
  const { lines } = await machine.console(NAME).run("report");
  expect(lines.join("\n")).toMatch(/^nic \S+ mac /);
});
