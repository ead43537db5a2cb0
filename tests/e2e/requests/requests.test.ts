// SPDX-License-Identifier: Apache-2.0
// Requests that other tests do not make: a manually started VM, a NIC of a VMI without a VM.
import { eventually, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CHANGE_MS, expectGone, expectReady, machine, SUBRESOURCES } from "../machine.ts";

const NAME = "asked";

/** Its image is missing, because the test needs only the VMI. */
function manifest(): unknown {
  const text = JSON.stringify(vmManifest({ name: NAME, running: false }));
  return JSON.parse(
    text.replace('"Halted"', '"Manual"').replace('"image":"guest"', '"image":"no"'),
  );
}

async function uidOtherThan(before: string): Promise<string> {
  return eventually(
    () => {
      const uid = machine.findVmi(NAME)?.metadata.uid;
      return uid === before ? undefined : uid;
    },
    { withinMs: CHANGE_MS },
  );
}

beforeAll(() => {
  machine.apply(manifest());
});

afterAll(() => {
  machine.delete("vm", NAME);
});

test("start creates its VMI, restart replaces it, and stop ends it", async () => {
  expect(machine.findVmi(NAME)).toBeUndefined();
  machine.patchbay("start", NAME);
  const first = await uidOtherThan("");
  machine.patchbay("restart", NAME);
  await uidOtherThan(first);
  machine.patchbay("stop", NAME);
  await eventually(() => machine.findVmi(NAME) === undefined, { withinMs: CHANGE_MS });
});

test("stop waits until the VM reports its stop, and a later plug does not wait", async () => {
  machine.patchbay("start", NAME);
  await uidOtherThan("");
  machine.patchbay("stop", NAME, "--wait");
  expect(machine.kubectl("get", "vm", NAME, "--no-headers")).toMatch(/ Stopped /);
  const nic = ["--name", "later", "--network-attachment-definition-name", "red"];
  const output = machine.patchbay("addinterface", NAME, ...nic, "--wait");
  expect(output).toContain("the VM is not running: the interface is plugged at its next start");
});

test.each([
  { what: ["vms"], want: ["alpha", "beta", "gamma"] },
  { what: ["networks"], want: ["blue", "red"] },
  { what: ["namespaces"], want: ["default", "kube-node-lease"] },
  { what: ["interfaces", NAME], want: ["later"] },
  { what: ["images"], want: ["guest"] },
])("completion lists $what", ({ what, want }) => {
  const names = machine.patchbay("complete", ...what).split("\n");
  expect(names).toEqual(expect.arrayContaining(want));
});

test("a NIC is plugged into a VMI without a VM by the VMI's own subresource, and unplugged", async () => {
  const path = `${SUBRESOURCES}/virtualmachineinstances/gamma`;
  const nic = { name: "own", networkAttachmentDefinitionName: "red" };
  expect(machine.put(`${path}/addinterface`, nic)).toMatchObject({ code: 0 });
  await expectReady("gamma", nic.name);
  expect(machine.put(`${path}/removeinterface`, { name: nic.name })).toMatchObject({ code: 0 });
  await expectGone("gamma", nic.name);
});
