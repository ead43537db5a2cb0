// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance, Volume } from "@patchbay/api";
import { expect, test } from "vitest";
import { aVmi } from "@patchbay/support";
import { cloudInitChanges, hookedCloudInitOf, type HookedCloudInit } from "./cloud-init-data.ts";

const GIVEN: HookedCloudInit = {
  DataSource: "noCloud",
  NoCloudMetaData: { "instance-id": "vm1.default", "local-hostname": "vm1" },
  ConfigDriveMetaData: null,
  ...{ UserData: "#cloud-config", NetworkData: "", DevicesData: null, VolumeName: "init" },
};

function having(volume: Omit<Volume, "name">): VirtualMachineInstance {
  const vmi = aVmi();
  return { ...vmi, spec: { ...vmi.spec, volumes: [{ name: "init", ...volume }] } };
}

const decode = (text: string): string => `decoded ${text}`;

test.each<{ name: string; volume: Omit<Volume, "name">; want: readonly unknown[] }>([
  { name: "another disk's", volume: { emptyDisk: { capacity: "1Gi" } }, want: [] },
  {
    name: "as text",
    volume: { cloudInitNoCloud: { userData: "#cloud-config" } },
    want: [GIVEN],
  },
  {
    name: "as base64, of a config drive",
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
        ...{ UserData: "decoded aa", NetworkData: "n", DevicesData: null, VolumeName: "init" },
      },
    ],
  },
  {
    name: "of a Secret, which no node reads",
    volume: { cloudInitNoCloud: { secretRef: { name: "s" } } },
    want: [undefined],
  },
])("what hooks are told of cloud-init's data: $name", ({ volume, want }) => {
  expect(hookedCloudInitOf(having(volume), decode)).toEqual(want);
});

const answer = (data: unknown, noCloudSource?: unknown) => ({
  data: data === undefined ? "" : JSON.stringify(data),
  noCloudSource: noCloudSource === undefined ? "" : JSON.stringify(noCloudSource),
});

test.each([
  { name: "the same", answered: answer(GIVEN), changes: [] },
  {
    name: "the same, with what was empty left out, and more of what makes no file",
    answered: answer({
      ...{ UserData: "#cloud-config", VolumeName: "x" },
      NoCloudMetaData: { ...GIVEN.NoCloudMetaData, "instance-type": "" },
    }),
    changes: [],
  },
  {
    name: "other data",
    answered: answer({ ...GIVEN, UserData: "#!/bin/sh", NetworkData: "version: 2" }),
    changes: ["UserData", "NetworkData"],
  },
  {
    name: "another host's name",
    answered: answer({ ...GIVEN, NoCloudMetaData: { "instance-id": "vm1.default" } }),
    changes: ["NoCloudMetaData"],
  },
  {
    name: "a config drive's too",
    answered: answer({ ...GIVEN, ConfigDriveMetaData: { uuid: "1" } }),
    changes: ["ConfigDriveMetaData"],
  },
  {
    name: "the older form, the same",
    answered: answer(undefined, { userData: "#cloud-config" }),
    changes: [],
  },
  {
    name: "the older form, where the newer has no user data",
    answered: answer({ ...GIVEN, UserData: "" }, { userData: "x", networkData: "y" }),
    changes: ["userData", "networkData"],
  },
  { name: "nothing", answered: answer(undefined), changes: undefined },
  { name: "a list", answered: answer([], []), changes: undefined },
])("what an answer changes: $name", ({ answered, changes }) => {
  expect(cloudInitChanges(GIVEN, answered)).toEqual(changes);
});
