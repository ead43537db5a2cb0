// SPDX-License-Identifier: Apache-2.0
// Form for a new VM. The submitted form becomes a pending change.
import type { ComponentChildren, InputHTMLAttributes, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { readImages } from "../../browser/request.ts";
import { emptyForm, findProblems, toNewVm, type NewVmForm } from "../../model/new-vm.ts";
import { toShortText } from "../../model/shown.ts";
import type { ViewProps } from "../actions.ts";

function randomBytes(size: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(size));
}

function Problem({ hint }: { readonly hint: string | undefined }): JSX.Element | null {
  return hint === undefined ? null : (
    <span class="field-problem" role="alert">
      Needed: {hint}
    </span>
  );
}

interface FieldProps {
  readonly label: string;
  readonly problem: string | undefined;
  readonly children: ComponentChildren;
}

function Field({ label, problem, children }: FieldProps): JSX.Element {
  return (
    <div class="field">
      <label>
        <span>{label}</span>
        {children}
      </label>
      <Problem hint={problem} />
    </div>
  );
}

interface FormProps {
  readonly form: NewVmForm;
  readonly onChange: (part: Partial<NewVmForm>) => void;
  readonly problems: ReturnType<typeof findProblems>;
}

const TEXTS = [
  ["name", "Name"],
  ["namespace", "Namespace"],
  ["image", "Image of its disk"],
  ["rootSize", "Size to keep its disk over restarts, such as 10Gi (default: created anew)"],
  ["disk", "Additional persistent disk, such as 10Gi (optional)"],
  ["memory", "Memory"],
  ["user", "User who may log in (optional)"],
  ["password", "The user's password"],
] as const;
const IMAGE_LIST = "images";
const ATTRIBUTES: Readonly<Record<string, InputHTMLAttributes>> = {
  image: { list: IMAGE_LIST },
  password: { autocomplete: "off", spellcheck: false },
};

/** Returns the disk images on the standalone machine and the images that visible VMs use. */
function useImages({ state, actions }: ViewProps): readonly string[] {
  const [images, setImages] = useState<readonly string[]>([]);
  useEffect(() => {
    void readImages(actions.session).then(setImages);
  }, [actions]);
  const used = [...state.objects.vms.values()].flatMap(({ spec }) =>
    (spec.template.spec.volumes ?? []).flatMap(({ containerDisk }) => containerDisk?.image ?? []),
  );
  return [...new Set([...images, ...used])].sort();
}

function ImageList(props: ViewProps): JSX.Element {
  return (
    <datalist id={IMAGE_LIST}>
      {useImages(props).map((image) => (
        <option key={image} value={image} />
      ))}
    </datalist>
  );
}

function Texts({ form, onChange, problems }: FormProps): JSX.Element {
  return (
    <>
      {TEXTS.map(([field, label]) => (
        <Field key={field} label={label} problem={problems[field]}>
          <input
            value={form[field]}
            {...(ATTRIBUTES[field] ?? {})}
            onInput={(event) => {
              onChange({ [field]: event.currentTarget.value });
            }}
          />
        </Field>
      ))}
      <Field label="Processor cores" problem={problems.cores}>
        <input
          type="number"
          min="1"
          value={form.cores}
          onInput={(event) => {
            onChange({ cores: event.currentTarget.valueAsNumber });
          }}
        />
      </Field>
      <Field label="SSH key that may log in (optional)" problem={problems.sshKey}>
        <input
          value={form.sshKey}
          onInput={(event) => {
            onChange({ sshKey: event.currentTarget.value });
          }}
        />
      </Field>
    </>
  );
}

function Networks({
  state,
  form,
  onChange,
  problems,
}: Pick<ViewProps, "state"> & FormProps): JSX.Element {
  const { networks } = form;
  return (
    <fieldset class="pick">
      <legend>Networks, beside the pod network</legend>
      {state.jacks
        .filter(({ key }) => key !== "pod")
        .map(({ key, color }) => (
          <label key={key} class={`pick-network cable-${String(color)}`}>
            <input
              type="checkbox"
              checked={networks.includes(key)}
              onChange={(event) => {
                const others = networks.filter((each) => each !== key);
                onChange({ networks: event.currentTarget.checked ? [...others, key] : others });
              }}
            />
            <bdi>{toShortText(key)}</bdi>
          </label>
        ))}
      <Problem hint={problems.networks} />
    </fieldset>
  );
}

function FormHead({ actions }: Pick<ViewProps, "actions">): JSX.Element {
  return (
    <div class="aside-head">
      <h2>New VM</h2>
      <button
        type="button"
        class="quiet close"
        aria-label="Close the form"
        onClick={() => {
          actions.setCreating(false);
        }}
      >
        ✕
      </button>
    </div>
  );
}

export function NewVmAside({ state, actions }: ViewProps): JSX.Element {
  const [form, setForm] = useState(() =>
    emptyForm(state.session?.namespace ?? "default", randomBytes),
  );
  const [isTried, setTried] = useState(false);
  const problems = findProblems(form);
  const onChange = (part: Partial<NewVmForm>): void => {
    setForm((known) => ({ ...known, ...part }));
  };
  const onSubmit = (event: Event): void => {
    event.preventDefault();
    setTried(true);
    if (Object.keys(problems).length > 0) return;
    void actions.addChange({ kind: "create", order: toNewVm(form, randomBytes) });
    actions.setCreating(false);
  };
  const fields = { form, onChange, problems: isTried ? problems : {} };
  return (
    <aside class="aside" aria-label="New VM">
      <form noValidate onSubmit={onSubmit}>
        <FormHead actions={actions} />
        <ImageList state={state} actions={actions} />
        <Texts {...fields} />
        <Networks state={state} {...fields} />
        <label class="check">
          <input
            type="checkbox"
            checked={form.isStarted}
            onChange={(event) => {
              onChange({ isStarted: event.currentTarget.checked });
            }}
          />
          Start it
        </label>
        <div class="buttons">
          <button type="submit" class="main">
            Gather
          </button>
        </div>
        <p class="hint">It is created by Apply, not before.</p>
      </form>
    </aside>
  );
}
