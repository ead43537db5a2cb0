// SPDX-License-Identifier: Apache-2.0
// A guest with a boot order on its NIC gets an address, a script and a kernel from the network by its NIC's iPXE.
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { VirtualMachineInstance } from "@patchbay/api";
import { aVmi, eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { makeGuestImage } from "../guest-image.ts";
import { definitionOf, makePlaces, placeOf, type NicFacts } from "./definition.ts";
import { makeOwnDirectory, startSessionDaemon, type SessionDaemon } from "./session.ts";

const NAME = "default_vm1";
const TAP = "tapc1";
/** The guest's boot files by TFTP. */
const SCRIPT = "#!ipxe\nkernel vmlinuz console=ttyS0 told-by-the-network\nboot\n";

// DHCP and TFTP on the tap, in the daemon's network namespace.
const SERVE = `
ip address add 192.0.2.1/24 dev ${TAP}
ip link set ${TAP} up
exec dnsmasq --keep-in-foreground --conf-file=/dev/null --user=root --pid-file="$1/dnsmasq.pid" --port=0 \\
  --interface=${TAP} --bind-dynamic --dhcp-leasefile="$1/leases" --dhcp-range=192.0.2.10,192.0.2.20,1h \\
  --enable-tftp --tftp-root="$1/tftp" --dhcp-boot=boot.ipxe
`;

let base = "";
let daemon: SessionDaemon;
let server: ChildProcess | undefined;

beforeAll(async () => {
  const guest = makeGuestImage();
  base = makeOwnDirectory(mkdtempSync(join(tmpdir(), "network-boot-")));
  makePlaces(base);
  makeOwnDirectory(join(base, "tftp"));
  copyFileSync(join(guest, "vmlinuz"), join(base, "tftp/vmlinuz"));
  writeFileSync(join(base, "tftp/boot.ipxe"), SCRIPT);
  const cacheDirectory = makeOwnDirectory(join(base, "cache"));
  daemon = await startSessionDaemon({ cacheDirectory });
  const inside = ["--target", String(daemon.pid), "--net", "sh", "-eu", "-c", SERVE, "serve", base];
  server = spawn("nsenter", inside, { stdio: "ignore" });
}, 120_000);

afterAll(async () => {
  server?.kill("SIGKILL");
  await daemon.close();
  rmSync(base, { recursive: true });
});

function iface(bootOrder: number | undefined): NicFacts {
  const name = "net";
  const order = bootOrder === undefined ? {} : { bootOrder };
  return {
    name,
    iface: { name, bridge: {}, macAddress: "02:00:00:00:00:01", ...order },
    binding: { kind: "bridge" },
    podInterfaceName: "pod1",
    attachment: { name, podInterfaceName: "pod1", state: "Attached" },
    links: {
      hasPodInterface: true,
      hasTap: true,
      hasBridge: true,
      isWired: true,
      isTapOpen: false,
      mtu: 1500,
    },
  };
}

function vmiWith({ iface: declared }: NicFacts): VirtualMachineInstance {
  const interfaces = declared === undefined ? [] : [declared];
  const domain = { memory: { guest: "256Mi" }, devices: { interfaces } };
  return { ...aVmi(), spec: { domain, networks: [{ name: "net", pod: {} }] } };
}

function consoleText(): string {
  // libvirt's log daemon wrote it, as the launchers' user.
  return readFileSync(join(placeOf(base, "/run/launcher"), "serial0.log"), "utf8");
}

function leases(): string {
  return spawnSync("cat", [join(base, "leases")], { encoding: "utf8" }).stdout;
}

test("a NIC with a boot order loads a kernel from the network and passes its arguments", async () => {
  const nic = iface(1);
  const xml = definitionOf(base, vmiWith(nic), [nic]).replace(
    /target dev="[^"]*"/,
    `target dev="${TAP}"`,
  );
  const file = join(base, "domain.xml");
  writeFileSync(file, xml);
  await daemon.virsh("define", "--validate", file);
  await daemon.virsh("start", NAME);
  const text = await eventually(
    () => {
      const observed = consoleText();
      return observed.includes("told-by-the-network") ? observed : undefined;
    },
    { withinMs: 150_000 },
  );
  expect(text).toMatch(/Linux version .*/);
  expect(leases()).toContain("02:00:00:00:00:01");
}, 200_000);
