// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { validateHookSidecars, parseHookSidecars } from "./hook-sidecars.ts";

const NAME = "hooks.kubevirt.io/hookSidecars";
const AT = `metadata.annotations[${NAME}]`;

function annotated(value: unknown): { annotations: Record<string, string> } {
  return { annotations: { [NAME]: typeof value === "string" ? value : JSON.stringify(value) } };
}

test("parses KubeVirt's own example", () => {
  // Source: KubeVirt docs, "Using ConfigMap to run custom script".
  const value = [
    {
      args: ["--version", "v1alpha2"],
      image: "registry:5000/kubevirt/sidecar-shim:devel",
      configMap: {
        name: "my-config-map",
        key: "my_script.sh",
        hookPath: "/usr/bin/onDefineDomain",
      },
    },
    {
      image: "example.com/other",
      imagePullPolicy: "Always",
      command: ["/hook"],
      downwardAPI: "device-info",
    },
  ];
  expect(validateHookSidecars(annotated(value), "metadata", true)).toEqual([]);
  const { downwardAPI, ...other } = value[1] as { downwardAPI: string };
  expect(parseHookSidecars(annotated(value), true)).toEqual([
    value[0],
    { ...other, readsDeviceInfo: true },
  ]);
  expect(downwardAPI).toBe("device-info");
});

test.each([{}, { annotations: {} }, annotated(""), annotated([]), undefined])(
  "parses no sidecars from %j",
  (metadata) => {
    expect(
      validateHookSidecars(metadata, "metadata", false).filter(({ field }) => field !== AT),
    ).toEqual([]);
    expect(parseHookSidecars(metadata, true)).toEqual([]);
  },
);

test("ignores hooks if the cluster does not allow them", () => {
  const metadata = annotated([{ image: "x" }]);
  const [problem] = validateHookSidecars(metadata, "metadata", false);
  expect(problem).toMatchObject({
    field: AT,
    message: expect.stringContaining("adds Sidecar") as string,
  });
  expect(parseHookSidecars(metadata, false)).toEqual([]);
});

const SHARED =
  "must be /var/run/NAME, where NAME begins with none of kubevirt, libvirt, patchbay, secrets: the launcher has its own files elsewhere";

test.each([
  { path: "/var/run/debug", want: [] },
  { path: "/var/run/efi.vars-1", want: [] },
  ...["/var/run", "/var/run/../etc", "/var/run/a/b", "/run/debug", "/etc/x", 1].map((path) => ({
    path,
    want: [SHARED],
  })),
  ...["kubevirt-hooks", "libvirt", "patchbay", "secrets"].map((name) => ({
    path: `/var/run/${name}`,
    want: [SHARED],
  })),
])("rejects a claim shared with the guest's QEMU at $path: $want", ({ path, want }) => {
  const pvc = { name: "p", volumePath: "/debug", sharedComputePath: path };
  const problems = validateHookSidecars(annotated([{ image: "x", pvc }]), "metadata", true);
  expect(problems.map(({ message }) => message)).toEqual(want);
});

test("accepts a sidecar without an image if a ConfigMap or a claim has its program", () => {
  const value = [
    { configMap: { name: "c", key: "k", hookPath: "/usr/bin/onDefineDomain" } },
    { pvc: { name: "p", volumePath: "/usr/local/bin" } },
  ];
  expect(validateHookSidecars(annotated(value), "metadata", true)).toEqual([]);
  expect(parseHookSidecars(annotated(value), true)).toEqual(value);
});

describe("reports all invalid fields with their paths", () => {
  test.each<{ value: unknown; want: string[] }>([
    { value: "no JSON", want: [`${AT}: must be a JSON list of sidecars`] },
    { value: {}, want: [`${AT}: must be a JSON list of sidecars`] },
    { value: ["x"], want: [`${AT}[0]: must be an object`] },
    {
      value: Array.from({ length: 17 }, () => ({ image: "x" })),
      want: [`${AT}: has more than 16 sidecars`],
    },
    {
      value: [{ image: "", imagePullPolicy: "Sometimes", command: "sh", args: [1], odd: 1 }],
      want: [
        `${AT}[0].image: must be a text that is not empty`,
        `${AT}[0].imagePullPolicy: must be one of Always, IfNotPresent, Never`,
        `${AT}[0].command: must be a list of texts`,
        `${AT}[0].args: must be a list of texts`,
        `${AT}[0].odd: is not known; leave it out`,
      ],
    },
    {
      value: [
        { image: "x", configMap: { key: "", hookPath: "/usr/../x" } },
        { image: "x", configMap: 1 },
      ],
      want: [
        `${AT}[0].configMap.name: is required`,
        `${AT}[0].configMap.key: must be a text that is not empty`,
        `${AT}[0].configMap.hookPath: must be the absolute path of a file`,
        `${AT}[1].configMap: must be an object`,
      ],
    },
    {
      value: [{ image: "x", pvc: { name: "p", sharedComputePath: "/usr" }, downwardAPI: "all" }],
      want: [
        `${AT}[0].downwardAPI: must be device-info, the only supported value`,
        `${AT}[0].pvc.volumePath: is required`,
        `${AT}[0].pvc.sharedComputePath: ${SHARED}`,
      ],
    },
  ])("$want", ({ value, want }) => {
    const problems = validateHookSidecars(annotated(value), "metadata", true);
    expect(problems.map(({ field, message }) => `${field}: ${message}`)).toEqual(want);
    expect(parseHookSidecars(annotated(value), true)).toEqual([]);
  });

  test("a missing image", () => {
    const problems = validateHookSidecars(annotated([{ toString: 1 }]), "metadata", true);
    expect(problems.map(({ field }) => field)).toEqual([`${AT}[0].image`, `${AT}[0].toString`]);
  });
});
