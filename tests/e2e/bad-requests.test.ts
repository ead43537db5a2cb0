// SPDX-License-Identifier: Apache-2.0
// Requests that cannot be carried out: the right code, a Status that names the field, nothing changed.
import { vmiManifest } from "@patchbay/testing";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { addInterface, expectReady, machine, SUBRESOURCES } from "./machine.ts";

const ALPHA = `${SUBRESOURCES}/virtualmachines/alpha`;

beforeAll(async () => {
  addInterface("alpha", { name: "base", network: "blue" });
  await expectReady("alpha", "base");
  // An image that is not there: the VMI never runs.
  const manifest = vmiManifest({ name: "waiting" });
  const text = JSON.stringify(manifest).replace('"image":"guest"', '"image":"nowhere"');
  machine.apply(JSON.parse(text));
});

afterAll(() => {
  machine.kubectl("delete", "vmi", "waiting");
});

describe("a request is refused", () => {
  test.each([
    {
      name: "unknown network",
      path: `${ALPHA}/addinterface`,
      body: { name: "new", networkAttachmentDefinitionName: "nowhere" },
      says: [/nowhere/, /networkAttachmentDefinitionName/],
    },
    {
      name: "the name is in use by another network",
      path: `${ALPHA}/addinterface`,
      body: { name: "base", networkAttachmentDefinitionName: "red" },
      says: [/base/],
    },
    {
      name: "bad name",
      path: `${ALPHA}/addinterface`,
      body: { name: "no good!", networkAttachmentDefinitionName: "blue" },
      says: [/name/],
    },
    {
      name: "missing network",
      path: `${ALPHA}/addinterface`,
      body: { name: "new" },
      says: [/networkAttachmentDefinitionName/],
    },
    {
      name: "missing name",
      path: `${ALPHA}/removeinterface`,
      body: {},
      says: [/name/],
    },
    {
      name: "the VMI does not run",
      path: `${SUBRESOURCES}/virtualmachineinstances/waiting/addinterface`,
      body: { name: "new", networkAttachmentDefinitionName: "blue" },
      says: [/not running/],
    },
    {
      name: "there is no such VM",
      path: `${SUBRESOURCES}/virtualmachines/nobody/addinterface`,
      body: { name: "new", networkAttachmentDefinitionName: "blue" },
      says: [/nobody/, /not found/i],
    },
  ])("$name", ({ path, body, says }) => {
    const before = machine.findVm("alpha")?.metadata.resourceVersion;
    const { code, stderr } = machine.put(path, body);
    expect(code).not.toBe(0);
    for (const pattern of says) expect(stderr).toMatch(pattern);
    expect(machine.findVm("alpha")?.metadata.resourceVersion).toBe(before);
  });

  test("a user's own edit of a VMI that a VM owns, with the command to use instead", () => {
    const patch = JSON.stringify([{ op: "remove", path: "/spec/networks/0" }]);
    const { code, stderr } = machine.try([
      "kubectl",
      "patch",
      "vmi",
      "alpha",
      "--type=json",
      "-p",
      patch,
    ]);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/kubectl patch vm alpha/);
  });
});
