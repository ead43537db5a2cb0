// SPDX-License-Identifier: Apache-2.0
// Manifests in the documents must be valid.
import { customResourceDefinitions, type VirtualMachine } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { validateVmChange } from "@patchbay/api/validate";
import { describe, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { listDocuments } from "./documents.ts";

interface Shown {
  readonly document: string;
  readonly object: KubeObject;
}

/** Objects in code blocks marked as YAML. */
function findManifests(): readonly Shown[] {
  return listDocuments().flatMap(({ path, text }) =>
    [...text.matchAll(/^```yaml\n(.*?)^```/gms)].flatMap(([, block = ""]) =>
      // A block without a kind fails the tests below.
      parseAllDocuments(block).map((parsed) => ({
        document: path,
        object: parsed.toJS() as KubeObject,
      })),
    ),
  );
}

const manifests = findManifests();
const known = customResourceDefinitions().map(({ spec }) => `${spec.group}/v1 ${spec.names.kind}`);

function isVm(object: KubeObject): object is VirtualMachine {
  return object.kind === "VirtualMachine";
}

describe("manifests in the documents", () => {
  test("are of kinds that Patchbay defines", () => {
    expect(manifests.length).toBeGreaterThan(1);
    const unknown = manifests.filter(
      ({ object }) => !known.includes(`${object.apiVersion} ${object.kind}`),
    );
    expect(unknown).toEqual([]);
  });

  test("pass the rules of admission", () => {
    const vms = manifests.map(({ object }) => object).filter(isVm);
    expect(vms.length).toBeGreaterThan(0);
    expect(vms.flatMap((vm) => validateVmChange(undefined, vm.spec))).toEqual([]);
  });
});
