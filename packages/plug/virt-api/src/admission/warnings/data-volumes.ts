// SPDX-License-Identifier: Apache-2.0
// What is a person told about a VM that brings along DataVolumes, where nobody makes disks of them?
import type { VirtualMachine } from "@patchbay/api";
import { AppError, isEqual, messageOf } from "@patchbay/core";
import type { Deps } from "../../deps.ts";

type Spec = VirtualMachine["spec"];

/** One warning where the kind is not served; none for templates that were stored before. */
export async function dataVolumeWarnings(
  deps: Deps,
  specs: { readonly spec: Spec; readonly old: Spec | undefined },
): Promise<readonly string[]> {
  const { dataVolumeTemplates = [] } = specs.spec;
  const isNew = !isEqual(dataVolumeTemplates, specs.old?.dataVolumeTemplates ?? []);
  if (dataVolumeTemplates.length === 0 || !isNew || (await deps.servesDataVolumes())) return [];
  const object = dataVolumeTemplates.map(({ metadata }) => metadata?.name ?? "").join(", ");
  const error = new AppError("CONTROLLER_NO_DATA_VOLUMES", { object });
  return [`the VM is stored but cannot be started: ${messageOf(error)}`];
}
