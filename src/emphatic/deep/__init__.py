"""Deep off-policy actor-critics: environments, experience, networks, agents, training."""

from . import losses as losses, networks as networks, replay as replay
from .agents.table import AGENTS as AGENTS, make_agent as make_agent
from .evaluation import (
    calibration as calibration,
    Evaluate as Evaluate,
    excursions as excursions,
    play as play,
    rollout as rollout,
)
from .experience import (
    Action as Action,
    Experience as Experience,
    load_experience as load_experience,
    Observation as Observation,
    save_experience as save_experience,
    Step as Step,
)
from .loop import (
    OnEvaluation as OnEvaluation,
    train_agent as train_agent,
    Training as Training,
    Values as Values,
)
from .plan import (
    is_finished as is_finished,
    training_status as training_status,
    TrainingStatus as TrainingStatus,
)
from .policies import (
    Bounds as Bounds,
    Distribution as Distribution,
    Gaussian as Gaussian,
    GaussianParams as GaussianParams,
    Normal as Normal,
    Policy as Policy,
    Softmax as Softmax,
    TruncatedGaussian as TruncatedGaussian,
)
from .streams import find_devices as find_devices, Source as Source
from .task import (
    load_or_record as load_or_record,
    make_policy as make_policy,
    make_task as make_task,
    policy_kinds as policy_kinds,
    Task as Task,
)
from .trained_policies import (
    evaluate as evaluate,
    load_policies as load_policies,
    restore as restore,
    save_policies as save_policies,
    TrainedPolicies as TrainedPolicies,
)
from .training import (
    OnValues as OnValues,
    to_dataset as to_dataset,
    train as train,
    train_on_task as train_on_task,
)
from .transition import Transition as Transition, transitions as transitions
