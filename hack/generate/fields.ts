// SPDX-License-Identifier: Apache-2.0
// Renders docs/reference/vm-fields.md: how each field of a VM is handled.
import { listVmFields, type SchemaField } from "@patchbay/api/validate";

const TEMPLATE = "spec.template.spec.";

export function isBelow(field: SchemaField, other: SchemaField): boolean {
  return field.path.startsWith(`${other.path}.`);
}

/** Returns the fields that have no parent in the list. Their children share their entries. */
function topmost(fields: readonly SchemaField[]): readonly SchemaField[] {
  return fields.filter((field) => !fields.some((other) => isBelow(field, other)));
}

/** Converts a field's path to its path below `spec` of a VMI. */
export function nameOf(path: string): string {
  return path.startsWith(TEMPLATE) ? path.slice(TEMPLATE.length) : path;
}

function tableOf(fields: readonly SchemaField[]): string {
  const rows = fields.map(({ path, description }) => {
    return `| \`${nameOf(path)}\` | ${description.replaceAll("|", "\\|")} |\n`;
  });
  return ["| field | meaning |\n| --- | --- |\n", ...rows, "\n"].join("");
}

/** Renders the fields of which only some values are supported. */
function tableOfValues(fields: readonly SchemaField[]): string {
  const rows = fields.flatMap(({ path, hint }) =>
    hint === undefined ? [] : [`| \`${nameOf(path)}\` | ${hint} |\n`],
  );
  return ["| field | instead of other values |\n| --- | --- |\n", ...rows, "\n"].join("");
}

/** `note` states that the page is generated. */
export function renderFields(note: string): string {
  const fields = listVmFields();
  const of = (list: SchemaField["level"]): readonly SchemaField[] =>
    fields.filter((field) => field.level === list);
  return [
    `# Fields of a VM\n\n${note}`,
    "Every field of KubeVirt's VirtualMachine is known: its schema is checked, `kubectl explain` describes it, and a\n",
    "manifest is stored unchanged. Paths that do not begin with `spec.` are below `spec.template.spec`, in a VMI below `spec`;\n",
    "`[]` is a list, `{}` a map. The tables are generated from `packages/control-plane/api/src/fields` and the schemas beside it.\n\n",
    "Manifests of `kubevirt.io/v1alpha3` and `v1alpha2` are accepted too; objects are stored as `v1`, with unchanged fields.\n",
    "Older aliases work: `registryDisk` is a `containerDisk`, `disks[].volumeName` names the disk's volume, and machine type\n",
    '`""` is the default.\n\n',
    "## Supported\n\n",
    tableOf(of("acted")),
    "## Stored without effect\n\nThe guest is the same without them; `kubectl apply` warns.\n\n",
    tableOf(topmost(of("harmless"))),
    "## Not supported\n\nThese fields would change the guest: a VM that uses one is stored and not started, an interface that uses one is\n",
    "not plugged. A value that is the default (`tpm.enabled: false`) has no effect.\n\n",
    tableOf(topmost(of("unbuilt"))),
    "Only some values of these fields are supported; with others the VM is stored and not started.\n\n",
    tableOfValues(of("acted")),
  ].join("");
}
