// SPDX-License-Identifier: Apache-2.0
import { createFiles } from "@patchbay/os";
import { expect, test } from "vitest";
import { parseManifests, readManifests } from "../manifests.ts";
import { forServerVersion } from "./app-armor.ts";

const FIELD = '"appArmorProfile":{"type":"Unconfined"}';
const ANNOTATIONS = ["net-agent", "virt-handler"].map(
  (name) => `"container.apparmor.security.beta.kubernetes.io/${name}":"unconfined"`,
);

const manifests = parseManifests(await readManifests(createFiles(), "base"));

test.each([
  { version: "v1.36.1", hasField: true },
  { version: "v1.30.0", hasField: true },
  { version: "v2.0.0", hasField: true },
  { version: "unknown", hasField: true },
  { version: "v1.29.14+k3s1", hasField: false },
  { version: "v1.26.0", hasField: false },
])("uses the AppArmor field on $version: $hasField", ({ version, hasField }) => {
  const answer = JSON.stringify({ gitVersion: version });
  const text = JSON.stringify(forServerVersion(manifests, answer));
  expect(text.split(FIELD).length - 1).toBe(hasField ? 2 : 0);
  expect(ANNOTATIONS.map((annotation) => text.includes(annotation))).toEqual(
    ANNOTATIONS.map(() => !hasField),
  );
});

test("changes nothing else in the objects", () => {
  const old = forServerVersion(manifests, '{"gitVersion":"v1.29.0"}');
  const changed = old.filter((object, index) => object !== manifests[index]);
  expect(changed.map(({ metadata }) => metadata.name).sort()).toEqual([
    "net-agent",
    "virt-handler",
  ]);
});
