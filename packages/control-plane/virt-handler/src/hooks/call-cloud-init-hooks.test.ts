// SPDX-License-Identifier: Apache-2.0
// Hooks that change cloud-init data.
import type { Volume } from "@patchbay/api";
import { createFakeHookSidecars, type FakeHookSidecars } from "@patchbay/hooks/testing";
import { aVmi } from "@patchbay/support";
import { beforeEach, expect, test } from "vitest";
import { callHooks, type HookAnswers } from "./call-hooks.ts";

const POD = { uid: "uid-1", namespace: "default", name: "virt-launcher-vm1" };
const HOOK = "hook-sidecar-0";
const DOMAIN = `<domain type="qemu">\n  <name>default_vm1</name>\n</domain>\n`;
const PASSWORD = "hunter2";
const DATA: Omit<Volume, "name"> = { cloudInitNoCloud: { userData: `password: ${PASSWORD}` } };

let hooks: FakeHookSidecars;
beforeEach(() => {
  hooks = createFakeHookSidecars();
});

type Change = NonNullable<
  Exclude<Parameters<FakeHookSidecars["put"]>[2], "silent">["preCloudInitIso"]
>;

function put(version: string, preCloudInitIso: Change = (given) => given): void {
  const hookPoints = ["OnDefineDomain", "PreCloudInitIso"].map((name) => ({ name, priority: 0 }));
  const info = { name: "users", versions: [version], hookPoints };
  hooks.put(POD.uid, HOOK, { info, preCloudInitIso });
}

function ask(volume: Omit<Volume, "name"> | undefined): Promise<HookAnswers> {
  const vmi = aVmi();
  const volumes = volume === undefined ? [] : [{ name: "init", ...volume }];
  const spec = { ...vmi.spec, volumes };
  return callHooks(
    { pod: POD, sidecars: [HOOK], domainXml: DOMAIN, hookNics: [], vmi: { ...vmi, spec } },
    hooks,
  );
}

test.each(["v1alpha2", "v1alpha3"])(
  "calls a hook that changes nothing twice, before the domain, in %s",
  async (version) => {
    let told = "";
    put(version, (given) => {
      told = given.data;
      return given;
    });
    const { domainXml, cloudInit } = await ask(DATA);
    expect(domainXml).toBe(DOMAIN);
    expect(cloudInit).toEqual([JSON.parse(told)]);
    expect(cloudInit).toMatchObject([
      {
        DataSource: "noCloud",
        UserData: `password: ${PASSWORD}`,
        VolumeName: "init",
        NoCloudMetaData: { "instance-id": "vm1.default" },
      },
    ]);
    const calls = ["Info", "PreCloudInitIso", "PreCloudInitIso"];
    expect(hooks.calls).toEqual(
      [...calls, "OnDefineDomain", "OnDefineDomain"].map((call) => `${HOOK} ${call}`),
    );
  },
);

test("uses the data that a hook returns", async () => {
  put("v1alpha2", (given) => ({ ...given, data: given.data.replace("password", "passwd") }));
  const { cloudInit } = await ask(DATA);
  expect(cloudInit.map(({ UserData }) => UserData)).toEqual([`passwd: ${PASSWORD}`]);
});

test("rejects a hook with varying answers without quoting them", async () => {
  let calls = 0;
  put("v1alpha2", (given) => {
    calls += 1;
    return { ...given, data: given.data.replace("password", `password${String(calls)}`) };
  });
  const error: unknown = await ask(DATA).catch((thrown: unknown) => thrown);
  expect(error).toMatchObject({
    code: "HOOK_ANSWER_REFUSED",
    details: {
      hook: "users (hook-sidecar-0)",
      call: "PreCloudInitIso",
      reason:
        "it returned different answers for the same data; make its answer depend only on its input",
    },
  });
  expect(String(error)).not.toContain(PASSWORD);
  expect(hooks.openCount).toBe(0);
});

test("rejects a hook that returns other data", async () => {
  put("v1alpha2", () => ({ data: "", noCloudSource: "" }));
  await expect(ask(DATA)).rejects.toMatchObject({
    code: "HOOK_ANSWER_REFUSED",
    details: { reason: "it is not cloud-init data" },
  });
});

test("does not pass data of a Secret to a hook, and reports it", async () => {
  put("v1alpha3");
  await expect(ask({ cloudInitNoCloud: { secretRef: { name: "s" } } })).rejects.toMatchObject({
    code: "HOOK_FAILED",
    details: { call: "PreCloudInitIso" },
  });
});

test("does not call hooks without cloud-init data", async () => {
  put("v1alpha3");
  expect(await ask(undefined)).toEqual({ domainXml: DOMAIN, cloudInit: [] });
  expect(hooks.calls).not.toContain(`${HOOK} PreCloudInitIso`);
});
