// SPDX-License-Identifier: Apache-2.0
import { customResourceDefinitions } from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import { createFakeStore } from "@patchbay/kube/testing";
import { expect, test } from "vitest";
import { DEFINITIONS } from "../types.ts";
import { install } from "./install.ts";

const NAME = "virtualmachineinstancemigrations.kubevirt.io";
const DEFINITION = findDefinition();

function findDefinition(): KubeObject {
  const found = customResourceDefinitions().find(({ metadata }) => metadata.name === NAME);
  if (found === undefined) throw new Error(`there is no CRD ${NAME}`);
  return found;
}

async function installOver(storedVersions: readonly string[], dryRun: boolean) {
  const store = createFakeStore();
  const installed = { ...DEFINITION, status: { storedVersions } };
  store.put(DEFINITIONS, installed);
  const before = await store.find(DEFINITIONS, DEFINITION.metadata);
  const reports: string[] = [];
  const result = await install(store, {
    objects: [DEFINITION],
    dryRun,
    report: ({ change }) => reports.push(change),
  }).then(
    () => undefined,
    (error: unknown) => error,
  );
  return { result, reports, before, after: await store.find(DEFINITIONS, DEFINITION.metadata) };
}

test.each([{ storedVersions: [] }, { storedVersions: ["v1"] }, { storedVersions: ["v1alpha3"] }])(
  "installs over objects that are stored as $storedVersions",
  async ({ storedVersions }) => {
    const { result, reports } = await installOver(storedVersions, false);
    expect(result).toBeUndefined();
    expect(reports).toHaveLength(1);
  },
);

test.each([{ dryRun: true }, { dryRun: false }])(
  "refuses CRDs without the version of stored objects, before any change; dry run: $dryRun",
  async ({ dryRun }) => {
    const { result, reports, before, after } = await installOver(["v1", "v2"], dryRun);
    expect(result).toMatchObject({
      code: "FORMAT_TOO_NEW",
      message: expect.stringMatching(
        new RegExp(`^CustomResourceDefinition ${NAME} has format v2, but .* up to v1, v1alpha3`),
      ) as string,
    });
    expect({ reports, after }).toEqual({ reports: [], after: before });
  },
);
