// SPDX-License-Identifier: Apache-2.0
// Form for a new VM. The submitted form becomes a pending change.
import type { ComponentChildren, InputHTMLAttributes, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { readImages } from "../../browser/request.ts";
import { findProblems, type NewVm } from "../../model/new-vm.ts";
import { toShortText } from "../../model/shown.ts";
import type { ViewProps } from "../actions.ts";

function emptyOrder(namespace: string): NewVm {
  return {
    namespace,
    name: "",
    image: "",
    memory: "512Mi",
    cores: 1,
    networks: [],
    disk: "",
    user: "",
    password: "",
    sshKey: "",
    isStarted: true,
  };
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
      {problem === undefined ? null : (
        <span class="field-problem" role="alert">
          Needed: {problem}
        </span>
      )}
    </div>
  );
}

interface FormProps {
  readonly order: NewVm;
  readonly onChange: (part: Partial<NewVm>) => void;
  readonly problems: ReturnType<typeof findProblems>;
}

const TEXTS = [
  ["name", "Name"],
  ["namespace", "Namespace"],
  ["image", "Image of its disk"],
  ["disk", "Additional persistent disk, such as 10Gi (optional)"],
  ["memory", "Memory"],
  ["user", "User who may log in (optional)"],
  ["password", "The user's password"],
] as const;
const IMAGE_LIST = "images";
const ATTRIBUTES: Readonly<Record<string, InputHTMLAttributes>> = {
  image: { list: IMAGE_LIST },
  password: { type: "password" },
};

/** Returns the images of this machine and of visible VMs. */
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

function Texts({ order, onChange, problems }: FormProps): JSX.Element {
  return (
    <>
      {TEXTS.map(([field, label]) => (
        <Field key={field} label={label} problem={problems[field]}>
          <input
            value={order[field]}
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
          value={order.cores}
          onInput={(event) => {
            onChange({ cores: event.currentTarget.valueAsNumber });
          }}
        />
      </Field>
      <Field label="SSH key that may log in (optional)" problem={undefined}>
        <input
          value={order.sshKey}
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
  order,
  onChange,
}: Pick<ViewProps, "state"> & Omit<FormProps, "problems">): JSX.Element {
  const { networks } = order;
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

export function NewVmForm({ state, actions }: ViewProps): JSX.Element {
  const [order, setOrder] = useState(() => emptyOrder(state.session?.namespace ?? "default"));
  const [isTried, setTried] = useState(false);
  const problems = findProblems(order);
  const onChange = (part: Partial<NewVm>): void => {
    setOrder((known) => ({ ...known, ...part }));
  };
  const onSubmit = (event: Event): void => {
    event.preventDefault();
    setTried(true);
    if (Object.keys(problems).length > 0) return;
    void actions.addChange({ kind: "create", order });
    actions.setCreating(false);
  };
  return (
    <aside class="aside" aria-label="New VM">
      <form noValidate onSubmit={onSubmit}>
        <FormHead actions={actions} />
        <ImageList state={state} actions={actions} />
        <Texts order={order} onChange={onChange} problems={isTried ? problems : {}} />
        <Networks state={state} order={order} onChange={onChange} />
        <label class="check">
          <input
            type="checkbox"
            checked={order.isStarted}
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
