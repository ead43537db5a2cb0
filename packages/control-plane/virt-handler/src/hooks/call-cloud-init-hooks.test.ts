// SPDX-License-Identifier: Apache-2.0
// Hooks that are asked for cloud-init's data: what they make of it, and who is refused.
import type { Volume } from "@patchbay/api";
import { createFakeHookSidecars, type FakeHookSidecars } from "@patchbay/hooks/testing";
import { aVmi } from "@patchbay/support";
import { beforeEach, expect, test } from "vitest";
import { callHooks, type Hooked } from "./call-hooks.ts";

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

function ask(volume: Omit<Volume, "name"> | undefined): Promise<Hooked> {
  const vmi = aVmi();
  const volumes = volume === undefined ? [] : [{ name: "init", ...volume }];
  const spec = { ...vmi.spec, volumes };
  return callHooks(
    { pod: POD, sidecars: [HOOK], domainXml: DOMAIN, hookNics: [], vmi: { ...vmi, spec } },
    hooks,
  );
}

test.each(["v1alpha2", "v1alpha3"])(
  "one that leaves it as it is was asked, twice, before the domain, in %s",
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

test("what one makes of it is the guest's", async () => {
  put("v1alpha2", (given) => ({ ...given, data: given.data.replace("password", "passwd") }));
  const { cloudInit } = await ask(DATA);
  expect(cloudInit.map(({ UserData }) => UserData)).toEqual([`passwd: ${PASSWORD}`]);
});

test("one that answers now this and now that is refused, and what it says is not told", async () => {
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
        "asked twice of the same data it answers differently; make what it does a function of what it is given",
    },
  });
  expect(String(error)).not.toContain(PASSWORD);
  expect(hooks.openCount).toBe(0);
});

test("so is one that answers something else", async () => {
  put("v1alpha2", () => ({ data: "", noCloudSource: "" }));
  await expect(ask(DATA)).rejects.toMatchObject({
    code: "HOOK_ANSWER_REFUSED",
    details: { reason: "it is no data of cloud-init's" },
  });
});

test("data of a Secret is not told to it, which is said", async () => {
  put("v1alpha3");
  await expect(ask({ cloudInitNoCloud: { secretRef: { name: "s" } } })).rejects.toMatchObject({
    code: "HOOK_FAILED",
    details: { call: "PreCloudInitIso" },
  });
});

test("it is asked nothing where there is none", async () => {
  put("v1alpha3");
  expect(await ask(undefined)).toEqual({ domainXml: DOMAIN, cloudInit: [] });
  expect(hooks.calls).not.toContain(`${HOOK} PreCloudInitIso`);
});
