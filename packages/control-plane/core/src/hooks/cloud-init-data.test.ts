// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance, Volume } from "@patchbay/api";
import { expect, test } from "vitest";
import { aVmi } from "@patchbay/support";
import {
  applyHookAnswer,
  buildCloudInitDisk,
  cloudInitForHooks,
  type HookedCloudInit,
} from "./cloud-init-data.ts";

const INPUT: HookedCloudInit = {
  DataSource: "noCloud",
  NoCloudMetaData: { "instance-id": "vm1.default", "local-hostname": "vm1" },
  ConfigDriveMetaData: null,
  UserData: "#cloud-config",
  NetworkData: "",
  DevicesData: null,
  VolumeName: "init",
};

function having(volume: Omit<Volume, "name">): VirtualMachineInstance {
  const vmi = aVmi();
  return { ...vmi, spec: { ...vmi.spec, volumes: [{ name: "init", ...volume }] } };
}

const decode = (text: string): string => `decoded ${text}`;

test.each<{ name: string; volume: Omit<Volume, "name">; want: readonly unknown[] }>([
  { name: "not for a different volume", volume: { emptyDisk: { capacity: "1Gi" } }, want: [] },
  {
    name: "as plain text",
    volume: { cloudInitNoCloud: { userData: "#cloud-config" } },
    want: [INPUT],
  },
  {
    name: "as base64, on a config drive",
    volume: { cloudInitConfigDrive: { userDataBase64: "aa", networkData: "n" } },
    want: [
      {
        DataSource: "configDrive",
        NoCloudMetaData: null,
        ConfigDriveMetaData: {
          instance_id: "vm1.default",
          hostname: "vm1",
          uuid: "vm1.default",
        },
        UserData: "decoded aa",
        NetworkData: "n",
        DevicesData: null,
        VolumeName: "init",
      },
    ],
  },
  {
    name: "not for a Secret, which nodes cannot read",
    volume: { cloudInitNoCloud: { secretRef: { name: "s" } } },
    want: [undefined],
  },
])("passes cloud-init's data to hooks: $name", ({ volume, want }) => {
  expect(cloudInitForHooks(having(volume), decode)).toEqual(want);
});

const answer = (data: unknown, noCloudSource?: unknown) => ({
  data: data === undefined ? "" : JSON.stringify(data),
  noCloudSource: noCloudSource === undefined ? "" : JSON.stringify(noCloudSource),
});

const DRIVE: HookedCloudInit = {
  ...INPUT,
  DataSource: "configDrive",
  NoCloudMetaData: null,
  ConfigDriveMetaData: { hostname: "vm1" },
};

test.each<{
  name: string;
  given?: HookedCloudInit;
  answered: ReturnType<typeof answer>;
  want: Partial<HookedCloudInit> | undefined;
}>([
  { name: "unchanged data", answered: answer(INPUT), want: {} },
  {
    name: "different data, without the disk's name and type",
    answered: answer({
      ...INPUT,
      UserData: "#!/bin/sh",
      NetworkData: "version: 2",
      VolumeName: "../x",
      DataSource: "configDrive",
      ConfigDriveMetaData: { uuid: "1" },
    }),
    want: { UserData: "#!/bin/sh", NetworkData: "version: 2" },
  },
  {
    name: "a different host name",
    answered: answer({ ...INPUT, NoCloudMetaData: { "local-hostname": "x" } }),
    want: { NoCloudMetaData: { "local-hostname": "x" } },
  },
  {
    name: "a different host name on a config drive",
    given: DRIVE,
    answered: answer({ ...DRIVE, ConfigDriveMetaData: { hostname: "x" } }),
    want: { ConfigDriveMetaData: { hostname: "x" } },
  },
  {
    name: "the old format",
    answered: answer(undefined, { userData: "x", networkData: "y" }),
    want: { UserData: "x", NetworkData: "y" },
  },
  {
    name: "the old format if the new format has no user data",
    answered: answer({ ...INPUT, UserData: "" }, { userData: "x" }),
    want: { UserData: "x" },
  },
  { name: "nothing", answered: answer(undefined), want: undefined },
  { name: "lists instead of objects", answered: answer([], []), want: undefined },
  {
    name: "only the other type's metadata",
    answered: answer({ UserData: "x", ConfigDriveMetaData: {} }),
    want: undefined,
  },
])("applies a hook's answer: $name", ({ given: input = INPUT, answered: replied, want }) => {
  expect(applyHookAnswer(input, replied)).toEqual(want && { ...input, ...want });
});

test.each([
  {
    data: { ...INPUT, NoCloudMetaData: { "instance-id": "i", "local-hostname": "" } },
    want: {
      file: "init.iso",
      label: "cidata",
      texts: new Map([
        ["meta-data", '{"instance-id":"i"}'],
        ["user-data", "#cloud-config"],
      ]),
    },
  },
  {
    data: { ...DRIVE, NetworkData: "n" },
    want: {
      file: "init.iso",
      label: "config-2",
      texts: new Map([
        ["openstack/latest/meta_data.json", '{"hostname":"vm1"}'],
        ["openstack/latest/user_data", "#cloud-config"],
        ["openstack/latest/network_data.json", "n"],
      ]),
    },
  },
])("the disk of $data.DataSource has the right files", ({ data, want }) => {
  expect(buildCloudInitDisk(data)).toEqual(want);
});
