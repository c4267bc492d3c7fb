from hrac.agents import manager
from hrac.agents.td3 import Settings
from hrac.config import replace
from hrac.experiments import tasks

ANTS = tasks.config_for("ant-maze")


def test_the_manager_has_the_settings_of_the_configuration():
    cfg = replace(
        ANTS,
        {
            "manager.reward_scale": 0.3,
            "manager.critic_weight_decay": 2e-4,
            "manager.target_noise_sigma": 0.4,
            "manager.target_noise_clip": 0.6,
        },
    )
    assert manager.settings(cfg) == Settings((300, 300), 1e-4, 1e-3, 0.005, 0.99, 0.3, 20.0, True, 2e-4, 0.4, 0.6)
