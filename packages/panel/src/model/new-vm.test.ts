// SPDX-License-Identifier: Apache-2.0
import { validateVmChange } from "@patchbay/api/validate";
import { createVmObjects } from "@patchbay/core/new-vm";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { emptyForm, findProblems, toNewVm, withVmAsOwner, type NewVmForm } from "./new-vm.ts";

const fill = (size: number): Uint8Array => new Uint8Array(size).fill(6);
const FORM: NewVmForm = {
  ...emptyForm("ns", fill),
  name: "new",
  image: " debian12 ",
  sshKey: " ssh-ed25519 A ",
};

function objectsOf(part: Partial<NewVmForm>) {
  return createVmObjects(toNewVm({ ...FORM, ...part }, fill));
}

describe("a new VM of the form", () => {
  test("has a disk of the image, a login with a generated password, and one NIC", () => {
    const { vm, claims, secret } = objectsOf({});
    expect(claims).toEqual([]);
    expect(secret.metadata).toEqual({ name: "new-cloud-init", namespace: "ns" });
    expect(Object.keys(secret.stringData)).toEqual(["userdata"]);
    expect(parse(secret.stringData["userdata"] ?? "")).toMatchObject({
      users: [
        {
          name: "admin",
          plain_text_passwd: expect.stringMatching(/^\w{4}(-\w{4}){3}$/) as string,
          ssh_authorized_keys: ["ssh-ed25519 A"],
        },
      ],
    });
    expect(vm.spec).toMatchObject({
      runStrategy: "Always",
      template: {
        spec: {
          domain: { cpu: { cores: 1 }, memory: { guest: "1Gi" } },
          networks: [{ pod: {} }],
          volumes: [{ containerDisk: { image: "debian12" } }, { name: "cloud-init" }],
        },
      },
    });
  });

  test("has network data by MAC if it joins networks", () => {
    const { vm, secret } = objectsOf({ networks: ["ns/blue", "other/red"] });
    const { domain, networks, volumes } = vm.spec.template.spec;
    expect(networks?.slice(1)).toEqual([
      { name: "blue", multus: { networkName: "blue" } },
      { name: "red", multus: { networkName: "other/red" } },
    ]);
    const { ethernets } = parse(secret.stringData["networkdata"] ?? "") as {
      readonly ethernets: Readonly<Record<string, { readonly match: { macaddress: string } }>>;
    }; // our own text
    const macs = Object.entries(ethernets).map(([name, { match }]) => [name, match.macaddress]);
    const ifaces = domain.devices?.interfaces ?? [];
    expect(macs).toEqual(ifaces.map(({ name, macAddress }) => [name, macAddress]));
    expect(volumes?.at(1)?.cloudInitNoCloud?.networkDataSecretRef).toEqual({
      name: "new-cloud-init",
    });
  });

  test("keeps a root disk with a size in a claim that is filled from the image", () => {
    const { vm } = objectsOf({ rootSize: "10Gi", disk: "1Gi" });
    expect(vm.spec.dataVolumeTemplates).toMatchObject([
      {
        metadata: { name: "new-root" },
        spec: {
          source: { registry: { url: "docker://debian12" } },
          storage: { resources: { requests: { storage: "10Gi" } } },
        },
      },
    ]);
    expect(vm.spec.template.spec.volumes).toMatchObject([
      { name: "root", dataVolume: { name: "new-root" } },
      { name: "cloud-init" },
      { name: "disk-1", persistentVolumeClaim: { claimName: "new-disk-1" } },
    ]);
    expect(validateVmChange(undefined, vm.spec)).toEqual([]);
  });

  test("without a user gives the key to the image's own user", () => {
    const { secret, vm } = objectsOf({ user: "", isStarted: false });
    expect(secret.stringData["userdata"]).toContain("ssh_authorized_keys:\n  - ssh-ed25519 A\n");
    expect(secret.stringData["userdata"]).not.toContain("users");
    expect(vm.spec.runStrategy).toBe("Halted");
  });
});

test.each<{ name: string; part: Partial<NewVmForm>; want: readonly string[] }>([
  { name: "a valid input", part: {}, want: [] },
  {
    name: "an empty input",
    part: { name: "", namespace: "", image: " ", memory: "", cores: 0 },
    want: ["name", "namespace", "image", "memory", "cores"],
  },
  { name: "a name with a slash", part: { name: "a/b" }, want: ["name"] },
  { name: "a fractional number of cores", part: { cores: 0.5 }, want: ["cores"] },
  { name: "a disk of no size", part: { disk: "big" }, want: ["disk"] },
  { name: "a root disk of no size", part: { rootSize: "big" }, want: ["rootSize"] },
  { name: "a user without a password", part: { user: "me", password: "" }, want: ["password"] },
  { name: "a user with a slash", part: { user: "a/b" }, want: ["user"] },
  { name: "a private key", part: { sshKey: "-----BEGIN" }, want: ["sshKey"] },
  {
    name: "networks of one name",
    part: { networks: ["ns/blue", "other/blue"] },
    want: ["networks"],
  },
])("the form with $name", ({ part, want }) => {
  expect(Object.keys(findProblems({ ...FORM, ...part }))).toEqual(want);
});

describe("withVmAsOwner", () => {
  const { vm, secret } = objectsOf({});
  const created = JSON.stringify({ ...vm, metadata: { ...vm.metadata, uid: "7" } });

  test("makes the created VM the owner of its secret", () => {
    expect(withVmAsOwner(secret, ["{}", created])).toMatchObject({
      kind: "Secret",
      metadata: { name: "new-cloud-init", ownerReferences: [{ name: "new", uid: "7" }] },
    });
  });

  test("returns other objects, and a secret without a created VM, unchanged", () => {
    expect(withVmAsOwner(vm, [created])).toBe(vm);
    expect(withVmAsOwner(secret, ["{}"])).toBe(secret);
  });
});
