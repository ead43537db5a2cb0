// SPDX-License-Identifier: Apache-2.0
// The CRDs accept the objects of the last release, and serve its clients and agents.
import { expect, test } from "vitest";
import { ACCEPTED_CHANGES } from "./accepted-changes.ts";
import { compareCrds, printChange } from "./crd-changes.ts";
import { parseCrd } from "./crd-record.ts";
import { readCurrentCrds } from "./crds.ts";
import { lastVersion, readFolder } from "./recorded.ts";

const recorded = [...readFolder(lastVersion(), "crds").values()].map(parseCrd);
const current = new Map(readCurrentCrds().map((crd) => [crd.name, crd]));
const accepted = ACCEPTED_CHANGES.map(printChange);

test.each(recorded)("$name has only compatible changes, and accepted ones", (crd) => {
  const changes = compareCrds(crd, current.get(crd.name)).map(printChange);
  expect(changes.filter((change) => !accepted.includes(change))).toEqual([]);
});

test("each accepted change exists, once, and has a reason", () => {
  const changes = recorded.flatMap((crd) => compareCrds(crd, current.get(crd.name)));
  expect(changes.map(printChange)).toEqual(expect.arrayContaining([...accepted]));
  expect(new Set(accepted).size).toBe(accepted.length);
  expect(ACCEPTED_CHANGES.filter(({ reason }) => reason.trim().length < 20)).toEqual([]);
});

test("the record has a field of each kind", () => {
  const fields = recorded.flatMap(({ name, versions }) =>
    versions.flatMap((version) => [...version.fields.keys()].map((path) => `${name} ${path}`)),
  );
  for (const path of [
    "virtualmachines.kubevirt.io /spec/template/spec/domain/devices/interfaces[]/name",
    "virtualmachineinstances.kubevirt.io /status/interfaces[]/hotplug/phase",
    "virtualmachineinstances.kubevirt.io /status/attachments[]/name",
    "kubevirts.kubevirt.io /spec/configuration/developerConfiguration/featureGates[]",
  ])
    expect(fields).toContain(path);
});
