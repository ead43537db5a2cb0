// SPDX-License-Identifier: Apache-2.0
// Each VM shape is valid in libvirt's schema and starts in QEMU, with every PCI device where the layout puts it.
import { execFileSync } from "node:child_process";
import { chownSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { VirtualMachineInstance } from "@patchbay/api";
import { printPciAddress } from "@patchbay/domain";
import { parseDomain } from "@patchbay/domain/parse";
import { aVmi } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { definitionOf, makePlaces, placeOf } from "./definition.ts";
import { LAUNCHER, makeOwnDirectory, startSessionDaemon, type SessionDaemon } from "./session.ts";
import { SHAPES, type Shape } from "./shapes.ts";

const NAME = "default_vm1";
/** Built-in controllers of the chipsets: SATA of q35, IDE of pc. */
const BUILT_IN = ["0000:00:1f.2", "0000:00:01.1"];

let base = "";
let daemon: SessionDaemon;

beforeAll(async () => {
  base = makeOwnDirectory(mkdtempSync(join(tmpdir(), "shapes-")));
  makePlaces(base);
  const cacheDirectory = makeOwnDirectory(join(base, "cache"));
  daemon = await startSessionDaemon({ cacheDirectory });
}, 60_000);

afterEach(async () => {
  const defined = await daemon.virsh("list", "--all", "--name");
  const running = await daemon.virsh("list", "--name");
  if (running.includes(NAME)) await daemon.virsh("destroy", NAME);
  if (defined.includes(NAME)) await daemon.virsh("undefine", NAME, "--nvram");
  const disks = placeOf(base, "/run/disks");
  for (const remaining of readdirSync(disks)) rmSync(join(disks, remaining));
});

afterAll(async () => {
  await daemon.close();
  rmSync(base, { recursive: true });
});

function vmiOf({ domain, volumes = [] }: Shape): VirtualMachineInstance {
  return { ...aVmi(), spec: { domain, volumes: [...volumes] } };
}

function makeDisks({ volumes = [] }: Shape): void {
  for (const { name } of volumes) {
    const path = join(placeOf(base, "/run/disks"), `${name}.qcow2`);
    execFileSync("qemu-img", ["create", "-q", "-f", "qcow2", path, "64M"]);
    chownSync(path, LAUNCHER.uid, LAUNCHER.gid);
  }
}

function addressesOf(xml: string): readonly string[] {
  const parsed = parseDomain(xml);
  if (!parsed.ok) throw new Error(parsed.reason);
  return parsed.domain.pciAddresses.map(printPciAddress).sort((a, b) => a.localeCompare(b));
}

test.each(SHAPES)(
  "$name",
  async (shape) => {
    makeDisks(shape);
    const xml = definitionOf(base, vmiOf(shape));
    const file = join(base, "domain.xml");
    writeFileSync(file, xml);
    await daemon.virsh("define", "--validate", file);
    // Its vCPUs need not run: QEMU has created the machine.
    await daemon.virsh("start", "--paused", NAME);
    const live = addressesOf(await daemon.virsh("dumpxml", NAME));
    expect(live.filter((address) => !BUILT_IN.includes(address))).toEqual(addressesOf(xml));
  },
  60_000,
);
