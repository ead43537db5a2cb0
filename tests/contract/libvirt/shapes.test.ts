// SPDX-License-Identifier: Apache-2.0
// Each shape of a VM is a domain that libvirt's schema allows and that QEMU makes a machine of, with nothing on PCI that
// is not where the layout puts it.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { chownSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { networkConfigOf, type VirtualMachineInstance } from "@patchbay/api";
import { machineUuidOf, planNodeVm } from "@patchbay/core";
import { parseDomain, printPciAddress } from "@patchbay/domain";
import { aVmi } from "@patchbay/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import { LAUNCHER, makeOwnDirectory, startSessionDaemon, type SessionDaemon } from "./session.ts";
import { SHAPES, type Shape } from "./shapes.ts";

/** Where the launcher has what the domain names, and where it is here. */
const PLACES = { "/run/launcher": "l", "/run/disks": "d", "/run/state": "s" } as const;
/** What the chipsets have by themselves: SATA of q35, IDE of pc. */
const BUILT_IN = ["0000:00:1f.2", "0000:00:01.1"];

const sha256Hex = (text: string): string => createHash("sha256").update(text).digest("hex");
let base = "";
let daemon: SessionDaemon;

beforeAll(async () => {
  base = makeOwnDirectory(mkdtempSync(join(tmpdir(), "shapes-")));
  for (const name of [...Object.values(PLACES), "cache"]) makeOwnDirectory(join(base, name));
  daemon = await startSessionDaemon({ cacheDirectory: join(base, "cache") });
}, 60_000);

afterAll(async () => {
  await daemon.close();
  rmSync(base, { recursive: true });
});

function vmiOf({ domain, volumes = [] }: Shape): VirtualMachineInstance {
  return { ...aVmi(), spec: { domain, volumes: [...volumes] } };
}

function xmlOf(vmi: VirtualMachineInstance): string {
  const network = { ...networkConfigOf(undefined), pcieRootPorts: 2 };
  const uuid = machineUuidOf(vmi, sha256Hex);
  const facts = { vmi, network, uuid, ifaces: [], domain: undefined, askedAgoMs: {} };
  const [define] = planNodeVm({ ...facts, useEmulation: true });
  if (define?.kind !== "defineDomain") throw new Error("the plan does not begin with the domain");
  return Object.entries(PLACES).reduce(
    (xml, [there, here]) => xml.replaceAll(`${there}/`, `${join(base, here)}/`),
    define.xml,
  );
}

function makeDisks({ volumes = [] }: Shape): void {
  for (const { name } of volumes) {
    const path = join(base, PLACES["/run/disks"], `${name}.qcow2`);
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
    const vmi = vmiOf(shape);
    const xml = xmlOf(vmi);
    const file = join(base, "domain.xml");
    writeFileSync(file, xml);
    const name = "default_vm1";
    await daemon.virsh("define", "--validate", file);
    try {
      // Its vCPUs need not run: QEMU has made the machine.
      await daemon.virsh("start", "--paused", name);
      const live = addressesOf(await daemon.virsh("dumpxml", name));
      expect(live.filter((address) => !BUILT_IN.includes(address))).toEqual(addressesOf(xml));
      await daemon.virsh("destroy", name);
    } finally {
      await daemon.virsh("undefine", name, "--nvram");
      for (const left of readdirSync(join(base, PLACES["/run/disks"])))
        rmSync(join(base, PLACES["/run/disks"], left));
    }
  },
  60_000,
);
