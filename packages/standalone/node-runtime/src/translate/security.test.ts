// SPDX-License-Identifier: Apache-2.0
import type { Pod, SecurityContext } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { aContainer, aPod, IMAGE, NODE } from "../testing/pods.ts";
import { toSandboxConfig } from "./sandbox.ts";
import { toContainerSecurity, toSandboxSecurity } from "./security.ts";

type PodContext = NonNullable<Pod["spec"]["securityContext"]>;

interface Given {
  readonly spec?: Partial<Pod["spec"]>;
  readonly shared?: PodContext;
  readonly own?: SecurityContext;
  readonly image?: Partial<typeof IMAGE> & { readonly uid?: undefined };
  readonly isProduct?: boolean;
}

function securityOf({ spec, shared = {}, own, image, isProduct = false }: Given) {
  const container = aContainer(own && { securityContext: own });
  const account = isProduct ? { serviceAccountName: "net-agent" } : {};
  const pod = aPod(
    { securityContext: shared, containers: [container], ...spec, ...account },
    isProduct ? { namespace: "patchbay" } : {},
  );
  return toContainerSecurity(pod, container, { ...IMAGE, ...image });
}

const named = { id: "sha256:1", tags: [], digests: [], bytes: 1, username: "daemon" };
const uid = (number: number) => ({ ...IMAGE, uid: number }) as never;

describe("a container of Patchbay runs as", () => {
  test.each<{ name: string; given: Given; want: object }>([
    { name: "root by its image", given: { image: uid(0) }, want: { runAsUser: 0, runAsGroup: 0 } },
    { name: "its image's user", given: {}, want: { runAsUser: 107, runAsGroup: 107 } },
    {
      name: "a group of its own",
      given: { image: uid(0), own: { runAsGroup: 5 } },
      want: { runAsUser: 0, runAsGroup: 5 },
    },
  ])("$name", ({ given, want }) => {
    expect(securityOf({ ...given, isProduct: true })).toMatchObject(want);
  });

  test("the named user of its image", () => {
    const container = aContainer();
    const spec = { securityContext: {}, containers: [container], serviceAccountName: "virt-api" };
    const pod = aPod(spec, { namespace: "patchbay" });
    const security = toContainerSecurity(pod, container, named);
    expect(security).toMatchObject({ runAsUsername: "daemon" });
    expect(security).not.toHaveProperty("runAsUser");
    expect(security).not.toHaveProperty("runAsGroup");
  });
});

describe("a container is rejected if it would run as", () => {
  const isProduct = true;
  test.each<{ name: string; given: Given; want: string }>([
    { name: "root by its image", given: { image: uid(0) }, want: "its image runs as root" },
    { name: "root by its pod", given: { shared: { runAsUser: 0 } }, want: "it would run as root" },
    {
      name: "root by itself",
      given: { shared: { runAsUser: 5 }, own: { runAsUser: 0 } },
      want: "it would run as root",
    },
    {
      name: "root from its image despite runAsNonRoot in a Patchbay pod",
      given: { isProduct, image: uid(0), own: { runAsNonRoot: true } },
      want: "its image runs as root",
    },
    {
      name: "user 0 despite runAsNonRoot in a Patchbay pod",
      given: { isProduct, shared: { runAsNonRoot: true }, own: { runAsUser: 0 } },
      want: "it would run as root",
    },
    {
      name: "a user number out of range",
      given: { image: uid(2 ** 31) },
      want: "its image runs as 2147483648, which is not a valid user number",
    },
  ])("$name", ({ given, want }) => {
    expect(() => securityOf(given)).toThrow(want);
  });

  test("a named user", () => {
    const container = aContainer();
    const pod = aPod({ securityContext: {}, containers: [container] });
    expect(() => toContainerSecurity(pod, container, named)).toThrow("its image runs as daemon");
  });
});

describe("the container's securityContext overrides the pod's", () => {
  test.each<{ name: string; own: SecurityContext; want: object }>([
    { name: "with its user", own: { runAsUser: 9 }, want: { runAsUser: 9, runAsGroup: 6 } },
    { name: "with its group", own: { runAsGroup: 9 }, want: { runAsUser: 5, runAsGroup: 9 } },
    {
      name: "but not null",
      // A server may fill it in.
      own: { runAsUser: null, runAsGroup: undefined } as never,
      want: { runAsUser: 5, runAsGroup: 6 },
    },
  ])("$name", ({ own, want }) => {
    expect(securityOf({ shared: { runAsUser: 5, runAsGroup: 6 }, own })).toMatchObject(want);
  });
});

describe("security settings", () => {
  const requested: SecurityContext = {
    privileged: true,
    allowPrivilegeEscalation: true,
    readOnlyRootFilesystem: true,
    capabilities: { add: ["NET_ADMIN"], drop: ["ALL"] },
    seccompProfile: { type: "Unconfined" },
  };
  test.each<{ name: string; given: Given; want: object }>([
    {
      name: "of a tenant's pod are restricted",
      given: { own: requested },
      want: {
        privileged: false,
        noNewPrivileges: true,
        readonlyRootfs: true,
        seccomp: "RuntimeDefault",
        capabilities: { add: [], drop: ["ALL"] },
      },
    },
    {
      name: "of Patchbay's pods are as requested",
      given: { own: requested, isProduct: true },
      want: {
        privileged: true,
        noNewPrivileges: false,
        maskedPaths: [],
        readonlyPaths: [],
        seccomp: "Unconfined",
        capabilities: { add: ["NET_ADMIN"], drop: ["ALL"] },
      },
    },
    {
      name: "of Patchbay's pods without privileged",
      given: { own: { ...requested, privileged: false }, isProduct: true },
      want: { privileged: false, noNewPrivileges: false, seccomp: "Unconfined" },
    },
    {
      name: "of Patchbay's pods with fewer requests",
      given: { own: { allowPrivilegeEscalation: false }, isProduct: true },
      want: {
        privileged: false,
        noNewPrivileges: true,
        readonlyRootfs: false,
        seccomp: "RuntimeDefault",
        capabilities: { add: [], drop: [] },
      },
    },
    {
      name: "of Patchbay's pods from the pod's securityContext",
      given: { shared: { seccompProfile: { type: "Unconfined" } }, isProduct: true },
      want: { seccomp: "Unconfined" },
    },
  ])("$name", ({ given, want }) => {
    const security = securityOf(given);
    expect(security).toMatchObject(want);
    expect(security.maskedPaths.length).toBe(security.privileged ? 0 : 12);
    expect(security.readonlyPaths.length).toBe(security.privileged ? 0 : 5);
  });

  test("contain the pod's supplemental groups, each once", () => {
    const shared = { supplementalGroups: [2000, 3000], fsGroup: 3000 };
    expect(securityOf({ shared }).supplementalGroups).toEqual([2000, 3000]);
  });
});

describe("a sandbox", () => {
  test.each<{ name: string; spec: Partial<Pod["spec"]>; want: object }>([
    {
      name: "shares a PID namespace with its containers",
      spec: { shareProcessNamespace: true },
      want: { pid: "POD" },
    },
    {
      name: "has separate PID namespaces for its containers",
      spec: { shareProcessNamespace: false },
      want: { pid: "CONTAINER" },
    },
    {
      name: "uses the node's PID namespace",
      spec: { shareProcessNamespace: true, hostPID: true },
      want: { pid: "NODE", network: "POD", ipc: "POD" },
    },
  ])("$name", ({ spec, want }) => {
    expect(toSandboxSecurity(aPod(spec)).namespaces).toMatchObject(want);
  });

  const privileged = aContainer({ securityContext: { privileged: true } });
  test.each<{ name: string; spec: Partial<Pod["spec"]>; want: object }>([
    {
      name: "no user",
      spec: { securityContext: {} },
      want: { readonlyRootfs: true, supplementalGroups: [], privileged: false },
    },
    {
      name: "the user's group",
      spec: { securityContext: { runAsUser: 5 } },
      want: { runAsUser: 5, runAsGroup: 5 },
    },
    {
      name: "a group of its own",
      spec: { securityContext: { runAsUser: 5, runAsGroup: 6 } },
      want: { runAsUser: 5, runAsGroup: 6 },
    },
    {
      name: "privileges if one container is privileged",
      spec: { containers: [aContainer(), privileged] },
      want: { privileged: true },
    },
    {
      name: "privileges if an init container is privileged",
      spec: { initContainers: [privileged] },
      want: { privileged: true },
    },
  ])("has $name", ({ spec, want }) => {
    const security = toSandboxSecurity(aPod(spec));
    expect(security).toMatchObject(want);
  });

  test("has no user if its pod sets no user", () => {
    const security = toSandboxSecurity(aPod({ securityContext: { runAsGroup: 6 } }));
    expect(security).not.toHaveProperty("runAsUser");
    expect(security).not.toHaveProperty("runAsGroup");
  });

  test("has the sysctls of its pod", () => {
    const sysctls = [{ name: "net.ipv4.tcp_syncookies", value: "1" }];
    const pod = aPod({ securityContext: { sysctls } });
    expect(toSandboxConfig(pod, 0, NODE).sysctls).toEqual({ "net.ipv4.tcp_syncookies": "1" });
  });

  test.each([
    { name: "a", hostname: "h", want: "h" },
    { name: "a", hostname: undefined, want: "a" },
    { name: `${"a".repeat(61)}.-b`, hostname: undefined, want: "a".repeat(61) },
    { name: "b".repeat(70), hostname: undefined, want: "b".repeat(63) },
  ])("has the host name $want", ({ name, hostname, want }) => {
    const pod = aPod(hostname === undefined ? {} : { hostname }, { name });
    expect(toSandboxConfig(pod, 0, NODE).hostname).toBe(want);
  });
});
