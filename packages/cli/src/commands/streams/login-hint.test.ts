// SPDX-License-Identifier: Apache-2.0
import { SECRETS, type VirtualMachineInstance } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import { createFakeStore } from "@patchbay/kube/testing";
import { expect, test } from "vitest";
import { loginHint } from "./login-hint.ts";

type Volume = NonNullable<VirtualMachineInstance["spec"]["volumes"]>[number];

function vmiWith(volume: Omit<Volume, "name"> | undefined): VirtualMachineInstance {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "VirtualMachineInstance",
    metadata: { namespace: "blue", name: "web" },
    spec: { domain: {}, ...(volume !== undefined && { volumes: [{ name: "a", ...volume }] }) },
  };
}

function toBase64(text: string): string {
  return Buffer.from(text).toString("base64");
}

const OURS = "#cloud-config\nuser: admin\npassword: abcd-efgh\n";
const FEDORA = "#cloud-config\npassword: fedora\n";
const STORE = createFakeStore();
for (const key of ["userdata", "userData"]) {
  STORE.put(SECRETS, {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { namespace: "blue", name: key.toLowerCase() === key ? "lower" : "upper" },
    data: { [key]: toBase64(OURS) },
  });
}

const SAID = 'log in as "admin" with password "abcd-efgh"';

test.each([
  { name: "no cloud-init volume", volume: undefined, want: "it has no cloud-init data" },
  { name: "another volume", volume: { emptyDisk: { capacity: "1Gi" } }, want: "no cloud-init" },
  { name: "text", volume: { cloudInitNoCloud: { userData: OURS } }, want: SAID },
  {
    name: "base64",
    volume: { cloudInitConfigDrive: { userDataBase64: toBase64(FEDORA) } },
    want: 'log in as the image\'s own user with password "fedora"',
  },
  {
    name: "terminal control characters",
    volume: { cloudInitNoCloud: { userData: '#cloud-config\npassword: "\\e[2J"\n' } },
    want: '"\\u001b[2J"',
  },
  {
    name: "a script",
    volume: { cloudInitNoCloud: { userData: "#!/bin/sh\n" } },
    want: "see its user data for logins: its cloud-init volume",
  },
  {
    name: "a Secret",
    volume: { cloudInitNoCloud: { secretRef: { name: "lower" } } },
    want: SAID,
  },
  {
    name: "a Secret under its alias",
    volume: { cloudInitNoCloud: { secretRef: { name: "upper" } } },
    want: SAID,
  },
  {
    name: "a missing Secret",
    volume: { cloudInitNoCloud: { secretRef: { name: "gone" } } },
    want: "the secret with its logins does not exist: gone",
  },
])("with $name: $want", async ({ volume, want }) => {
  expect(await loginHint(STORE, vmiWith(volume))).toContain(want);
});

test("names the secret if the user may not read it", async () => {
  const store = createFakeStore();
  const find = (): Promise<never> => Promise.reject(new AppError("KUBE_FORBIDDEN"));
  const volume = { cloudInitNoCloud: { secretRef: { name: "lower" } } };
  expect(await loginHint({ ...store, find }, vmiWith(volume))).toBe(
    "see secret lower in namespace blue for its logins",
  );
});
