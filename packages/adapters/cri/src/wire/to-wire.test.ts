// SPDX-License-Identifier: Apache-2.0
import type { ContainerSecurity } from "@patchbay/core/interfaces";
import { expect, test } from "vitest";
import { containerConfigFor, sandboxConfigFor } from "../testing/index.ts";
import { fromContainerConfig, fromSandboxConfig } from "./to-wire.ts";

const PLACE = { image: "one", logDirectory: "/logs", cgroupParent: "/pods" };
const CONTAINER = containerConfigFor(PLACE, ["run"], 0);
const SECURITY: ContainerSecurity = {
  namespaces: CONTAINER.security.namespaces,
  capabilities: { add: [], drop: [] },
  privileged: false,
  readonlyRootfs: false,
  supplementalGroups: [],
  noNewPrivileges: true,
  maskedPaths: [],
  readonlyPaths: [],
  seccomp: "RuntimeDefault",
};

test.each([
  {
    name: "a UID and a GID",
    user: { runAsUser: 5, runAsGroup: 6 },
    want: ["5:6", 5, undefined],
  },
  { name: "a UID alone", user: { runAsUser: 5 }, want: [undefined, 5, undefined] },
  { name: "a GID alone", user: { runAsGroup: 6 }, want: [undefined, undefined, 6] },
  { name: "a user name", user: { runAsUsername: "me" }, want: ["me", undefined, undefined] },
  {
    name: "a user name and a GID",
    user: { runAsUsername: "me", runAsGroup: 6 },
    want: ["me", undefined, 6],
  },
  { name: "no user", user: {}, want: [undefined, undefined, undefined] },
])("sets a container's user by $name", ({ user, want }) => {
  const security = { ...SECURITY, ...user };
  const { linux } = fromContainerConfig({ ...CONTAINER, security }) as {
    readonly linux: { readonly securityContext: Record<string, unknown> };
  };
  const sent = linux.securityContext;
  const number = (of: unknown): unknown => (of as { readonly value: number } | undefined)?.value;
  expect([sent["runAsUsername"], number(sent["runAsUser"]), number(sent["runAsGroup"])]).toEqual(
    want,
  );
});

test.each([
  { stdin: true, stdinOnce: false, tty: false },
  { stdin: false, stdinOnce: true, tty: true },
])("sets a container's streams: %j", (streams) => {
  expect(fromContainerConfig({ ...CONTAINER, ...streams })).toMatchObject(streams);
});

test("a sandbox without its own name servers sends none", () => {
  expect(fromSandboxConfig(sandboxConfigFor(PLACE, "pod"))).not.toHaveProperty("dnsConfig");
});
