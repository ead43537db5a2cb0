// SPDX-License-Identifier: Apache-2.0
// kubectl applies users' manifests of every version and shows them in the requested version.
import { join } from "node:path";
import { customResourceDefinitions } from "@patchbay/api";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startKubectlSession, type KubectlSession } from "../apiserver/kubectl/session.ts";

const MANIFESTS = join(import.meta.dirname, "kubevirt");
const TABLE = "-o custom-columns=:apiVersion,:metadata.name --no-headers";

let session: KubectlSession;

beforeAll(async () => {
  session = await startKubectlSession();
  for (const definition of customResourceDefinitions()) {
    const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const { code, text } = await session.api.post(path, definition);
    if (code !== 201) throw new Error(text);
  }
  const path = "/apis/kubevirt.io/v1alpha2/virtualmachines";
  await eventually(async () => ((await session.api.get(path)).code === 200 ? true : undefined), {
    withinMs: 5000,
  });
});

afterAll(async () => {
  await session.close();
});

test.each([
  { file: "multus-two-interfaces.yaml", made: ["vmi-multus-multiple-net"] },
  {
    file: "pvc-vm-services.yaml",
    made: ["service/web", "virtualmachine.kubevirt.io/web"],
  },
  { file: "quickstart-vm.yaml", made: ["virtualmachine.kubevirt.io/testvm"] },
  { file: "refused-vm.yaml", made: ["virtualmachine.kubevirt.io/refused"] },
])("applies $file unchanged", async ({ file, made }) => {
  const { code, out, err } = await session.kubectl("apply -f", join(MANIFESTS, file));
  const others = err.split("\n").filter((line) => !/^Warning: .*is an older version/.test(line));
  expect([code, others]).toEqual([0, [""]]);
  for (const name of made) expect(out).toContain(`${name} created`);
});

test("converts between versions, with v1 as the default", async () => {
  // A short name stands for the preferred version, even with a suffix.
  for (const [kind, shown] of [
    ["vmi", "v1"],
    ["virtualmachineinstances.v1alpha3.kubevirt.io", "v1alpha3"],
    ["virtualmachineinstances.v1alpha2.kubevirt.io", "v1alpha2"],
  ] as const) {
    const { out } = await session.kubectl(`get ${kind} ${TABLE}`);
    expect(out.trim().split(/\s+/)).toEqual([`kubevirt.io/${shown}`, "vmi-multus-multiple-net"]);
  }
  const { out } = await session.kubectl(
    "get vmi vmi-multus-multiple-net -o jsonpath={.spec.volumes[0]}",
  );
  expect(JSON.parse(out)).toEqual({
    name: "registryvolume",
    registryDisk: { image: "kubevirt/fedora-cloud-registry-disk-demo" },
  });
});

test("warns writers of an older version about the newer one", async () => {
  const file = join(MANIFESTS, "multus-two-interfaces.yaml");
  const { err } = await session.kubectl("apply -f", file);
  expect(err).toContain("write apiVersion: kubevirt.io/v1");
});
