// SPDX-License-Identifier: Apache-2.0
import type { Container, Pod } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { aContainer, aPod } from "../testing/pods.ts";
import { findPodProblems } from "./pod-policy.ts";

const PRODUCT = { namespace: "patchbay", name: "virt-handler-x1" };

function fieldsOf(pod: Pod): readonly string[] {
  return findPodProblems(pod).map(({ field }) => field);
}

function withContext(securityContext: Container["securityContext"]): Pod {
  return aPod({
    containers: [aContainer(securityContext === undefined ? {} : { securityContext })],
  });
}

test("a launcher may run", () => {
  expect(findPodProblems(aPod())).toEqual([]);
});

test.each<{ name: string; spec: Partial<Pod["spec"]>; want: readonly string[] }>([
  { name: "the node's network", spec: { hostNetwork: true }, want: ["spec.hostNetwork"] },
  { name: "the host's process namespace", spec: { hostPID: true }, want: ["spec.hostPID"] },
  { name: "the node's IPC", spec: { hostIPC: true }, want: ["spec.hostIPC"] },
  {
    name: "a path of the node",
    spec: { volumes: [{ name: "etc", hostPath: { path: "/etc" } }] },
    want: ["spec.volumes[etc].hostPath"],
  },
  {
    name: "a sysctl that affects the node",
    spec: {
      securityContext: { runAsUser: 1000, sysctls: [{ name: "kernel.msgmax", value: "1" }] },
    },
    want: ["spec.securityContext.sysctls[kernel.msgmax]"],
  },
  {
    name: "an unconfined seccomp profile",
    spec: { securityContext: { seccompProfile: { type: "Unconfined" } } },
    want: ["spec.securityContext.seccompProfile"],
  },
])("rejects in pods other than Patchbay's: $name", ({ spec, want }) => {
  expect(fieldsOf(aPod(spec))).toEqual(want);
  const metadata = aPod(spec, PRODUCT);
  expect(
    findPodProblems({
      ...metadata,
      spec: { ...metadata.spec, serviceAccountName: "virt-handler" },
    }),
  ).toEqual([]);
});

test.each([
  { name: "another account", metadata: PRODUCT, serviceAccountName: "default" },
  {
    name: "another namespace",
    metadata: { namespace: "tenant" },
    serviceAccountName: "virt-handler",
  },
])("does not treat as Patchbay's pod: $name", ({ metadata, serviceAccountName }) => {
  expect(fieldsOf(aPod({ hostPID: true, serviceAccountName }, metadata))).toEqual(["spec.hostPID"]);
});

describe("a directory of the node", () => {
  const volumes = [{ name: "disks", hostPath: { path: "/srv/disks", type: "Directory" } }];
  const refused = ["spec.volumes[disks].hostPath"];

  test("is allowed as an existing directory for pods that run like launchers", () => {
    expect(fieldsOf(aPod({ volumes }))).toEqual([]);
  });

  test.each(["", "DirectoryOrCreate", "File", "BlockDevice", undefined])(
    "is not allowed as a path of type %s",
    (type) => {
      const hostPath = { path: "/srv/disks", ...(type === undefined ? {} : { type }) };
      expect(fieldsOf(aPod({ volumes: [{ name: "disks", hostPath }] }))).toEqual(refused);
    },
  );

  test.each<{ name: string; spec: Partial<Pod["spec"]> }>([
    { name: "another user", spec: { securityContext: { runAsUser: 108, runAsGroup: 107 } } },
    { name: "the image's user", spec: { securityContext: { runAsGroup: 107 } } },
    { name: "the image's group", spec: { securityContext: { runAsUser: 107 } } },
    {
      name: "a supplemental group",
      spec: { securityContext: { runAsUser: 107, runAsGroup: 107, supplementalGroups: [1000] } },
    },
    {
      name: "an fsGroup",
      spec: { securityContext: { runAsUser: 107, runAsGroup: 107, fsGroup: 1000 } },
    },
    {
      name: "a container of another user",
      spec: { containers: [aContainer({ securityContext: { runAsUser: 1000 } })] },
    },
    {
      name: "an init container of another group",
      spec: {
        initContainers: [aContainer({ name: "first", securityContext: { runAsGroup: 1000 } })],
      },
    },
  ])("is not allowed with $name", ({ spec }) => {
    expect(fieldsOf(aPod({ ...spec, volumes }))).toEqual(expect.arrayContaining(refused));
  });
});

describe("a container", () => {
  test.each<{ field: string; context: Container["securityContext"] }>([
    { field: "privileged", context: { privileged: true } },
    { field: "allowPrivilegeEscalation", context: { allowPrivilegeEscalation: true } },
    { field: "capabilities.add", context: { capabilities: { add: ["NET_ADMIN"] } } },
    { field: "procMount", context: { procMount: "Unmasked" } },
    { field: "seccompProfile", context: { seccompProfile: { type: "Localhost" } } },
  ])("may not have $field", ({ field, context }) => {
    expect(fieldsOf(withContext(context))).toEqual([
      `spec.containers[compute].securityContext.${field}`,
    ]);
  });

  test.each([0, -1, 2 ** 31, 4294967295, 4294967296, 1.5])("may not run as %d", (runAsUser) => {
    expect(fieldsOf(withContext({ runAsUser }))).toEqual([
      "spec.containers[compute].securityContext.runAsUser",
    ]);
  });

  test.each([1, 107, 2 ** 31 - 1])("may run as %d", (runAsUser) => {
    expect(fieldsOf(withContext({ runAsUser }))).toEqual([]);
  });

  test.each([0, 42, -1, 999, 2 ** 31])("may not have group %d", (runAsGroup) => {
    expect(fieldsOf(withContext({ runAsGroup }))).toEqual([
      "spec.containers[compute].securityContext.runAsGroup",
    ]);
  });

  test.each([107, 1000, 2 ** 31 - 1])(
    "may have group %d, its own or an unreserved one",
    (runAsGroup) => {
      expect(fieldsOf(withContext({ runAsGroup }))).toEqual([]);
    },
  );

  test("may not use a host port or bidirectional mount propagation", () => {
    const ports = [{ containerPort: 80, hostPort: 80 }];
    const volumeMounts = [
      { name: "v", mountPath: "/v", mountPropagation: "Bidirectional" as const },
    ];
    expect(fieldsOf(aPod({ containers: [aContainer({ ports, volumeMounts })] }))).toEqual([
      "spec.containers[compute].ports",
      "spec.containers[compute].volumeMounts[v].mountPropagation",
    ]);
  });

  test("is also checked as an init container", () => {
    const initContainers = [aContainer({ name: "first", securityContext: { privileged: true } })];
    expect(fieldsOf(aPod({ initContainers }))).toEqual([
      "spec.initContainers[first].securityContext.privileged",
    ]);
  });
});

test.each([
  {
    name: "a group of the system",
    securityContext: { runAsUser: 1000, fsGroup: 42 },
    want: "fsGroup",
  },
  {
    name: "the root group",
    securityContext: { supplementalGroups: [0] },
    want: "supplementalGroups",
  },
])("a pod may not have $name", ({ securityContext, want }) => {
  expect(fieldsOf(aPod({ securityContext }))).toEqual([`spec.securityContext.${want}`]);
});

test.each(["../x", "", "A", "a/b", "a".repeat(64)])(
  "rejects %j as the name of a directory in any pod",
  (name) => {
    const spec = { containers: [aContainer({ name })], serviceAccountName: "virt-handler" };
    expect(fieldsOf(aPod(spec, PRODUCT))).toEqual([`spec.containers[${name}].name`]);
    expect(fieldsOf(aPod({ volumes: [{ name, emptyDir: {} }] }))).toEqual([
      `spec.volumes[${name}].name`,
    ]);
  },
);

test("rejects two containers of one name", () => {
  const pod = aPod({ initContainers: [aContainer()] });
  expect(fieldsOf(pod)).toEqual(["spec.containers[compute].name"]);
});
