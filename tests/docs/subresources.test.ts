// SPDX-License-Identifier: Apache-2.0
// Editors of VMs may request every subresource, also those rejected by name. Otherwise the error would wrongly suggest
// missing rights.
import { names } from "@patchbay/api";
import { isRole, parseManifests, readManifests } from "@patchbay/manifests";
import { createFiles } from "@patchbay/os";
import { expect, test } from "vitest";
import { ROUTES } from "../../packages/control-plane/virt-api/src/routes/table.ts";

const roles = parseManifests(await readManifests(createFiles(), "rights")).filter(isRole);
const VERBS = { get: "get", put: "update" } as const;
const PARENT = "namespaces/{namespace}/";

/** For example `update virtualmachines/start`; of a longer path the first part counts. */
const wanted = ROUTES.filter(({ path }) => path.startsWith(PARENT)).map(({ path, method }) => {
  const [resource = "", , subresource] = path.slice(PARENT.length).split("/");
  const named = subresource === undefined ? resource : `${resource}/${subresource}`;
  return `${VERBS[method]} ${named}`;
});

function rightsOf(role: string): readonly string[] {
  const rules = roles.find(({ metadata }) => metadata.name === role)?.rules ?? [];
  return rules
    .filter(({ apiGroups = [] }) => apiGroups.includes(names.SUBRESOURCES_GROUP))
    .flatMap(({ verbs, resources = [] }) =>
      verbs.flatMap((verb) => resources.map((resource) => `${verb} ${resource}`)),
    );
}

/** A capture shows the traffic of the guest's users. */
const ADMIN_ONLY = ["get virtualmachineinstances/capture"];

test("an admin may use all subresources and no others", () => {
  expect([...rightsOf("kubevirt.io:admin")].sort()).toEqual([...new Set(wanted)].sort());
});

test("an editor may use all subresources except packet captures, and no others", () => {
  const left = wanted.filter((right) => !ADMIN_ONLY.includes(right));
  expect([...rightsOf("kubevirt.io:edit")].sort()).toEqual([...new Set(left)].sort());
});
